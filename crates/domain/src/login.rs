//! The login of a player with a login code, the `js_code` (contract 11).

use std::time::Duration;

use crate::ids::{OpenId, UnionId, made_of};

/// How long a login code that an operator issued is valid, by the database's clock (contract 11.3).
pub const LOGIN_CODE_LIFETIME: Duration = Duration::from_mins(5);

/// The player who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Player {
    /// The player of the app.
    pub open_id: OpenId,
    /// The person behind the player, where the operator gave one.
    pub union_id: Option<UnionId>,
}

impl Player {
    /// The player of a code `sandbox-NAME`, which a sandbox app always takes. The `open_id` is the code
    /// itself (contract 11.4). `None` for any other text.
    #[must_use]
    pub fn of_sandbox(js_code: &str) -> Option<Self> {
        let name = js_code.strip_prefix("sandbox-")?;
        let is_name = made_of(name, 1, 32, |byte| byte.is_ascii_alphanumeric());
        let open_id = OpenId::parse(js_code).ok().filter(|_| is_name)?;
        Some(Self { open_id, union_id: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_code_is_the_players_open_id_and_its_name_has_1_to_32_letters_and_digits() {
        let of = |name: &str| Player::of_sandbox(&format!("sandbox-{name}"));
        let longest = "a".repeat(32);
        for name in ["alice", "Z9", "0", longest.as_str()] {
            assert_eq!(of(name).unwrap().open_id.as_str(), format!("sandbox-{name}"));
        }
        for name in ["", "a-b", "a_b", "a b", "é", &format!("{longest}a")] {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(Player::of_sandbox("alice"), None);
    }
}
