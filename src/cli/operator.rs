//! The operator of a command, for the operator's log.

use std::fs;

use anyhow::{Result, anyhow};
use domain::operator::{Operator, OperatorKind};

/// The variable with the operator's name. With one underscore it is not a setting.
pub(super) const VARIABLE: &str = "MINITILL_OPERATOR";

/// Parses the value of `--operator`.
pub(super) fn parse(text: &str) -> Result<Operator, String> {
    Operator::new(OperatorKind::CommandLine, text).map_err(|expected| expected.to_string())
}

/// The operator of a command: `--operator`, or the variable, or the system user with the machine. After
/// sudo the name has both users.
pub(super) fn of_command(given: Option<&Operator>) -> Result<Operator> {
    if let Some(operator) = given {
        return Ok(operator.clone());
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(name) = variable(VARIABLE) {
        return parse(&name).map_err(|problem| anyhow!("{VARIABLE}: {problem}"));
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uid = rustix::process::getuid().as_raw();
    let user = user_in(&passwd, uid).map_or_else(|| format!("uid {uid}"), str::to_owned);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = system_name(variable("SUDO_USER").as_deref(), &user, &host);
    parse(&name).map_err(|problem| {
        anyhow!("the name of the system user cannot be an operator's name; use --operator NAME: {problem}")
    })
}

fn system_name(sudo_user: Option<&str>, user: &str, host: &str) -> String {
    match sudo_user {
        Some(person) => format!("{person} as {user}@{host}"),
        None => format!("{user}@{host}"),
    }
}

/// The name of a user in `/etc/passwd`.
fn user_in(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_user_is_named_with_the_machine_and_with_who_used_sudo() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!((user_in(passwd, 1000), user_in(passwd, 7)), (Some("alice"), None));
        assert_eq!(system_name(None, "alice", "till-1"), "alice@till-1");
        assert_eq!(system_name(Some("alice"), "root", "till-1"), "alice as root@till-1");
    }
}
