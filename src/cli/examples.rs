//! The examples in the help of every command, in one table.

use clap::Command;

/// The words of a command, and its examples. After two blanks and `#` stands a comment.
const EXAMPLES: [(&str, &[&str]); 110] = [
    ("serve", &["minitill serve", "minitill serve --config /etc/minitill.toml"]),
    ("status", &["minitill status", "minitill status --json"]),
    ("health", &["minitill health", "minitill health --ready"]),
    ("migrate", &["minitill migrate"]),
    ("demo", &["minitill demo"]),
    (
        "postgres upgrade",
        &["minitill postgres upgrade", "minitill postgres upgrade --old-bin /usr/lib/postgresql/15/bin"],
    ),
    (
        "sign",
        &[
            "minitill sign --key B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh app_id=mygame amount=60",
            "minitill sign --key-file pay.key app_id=mygame amount=60",
        ],
    ),
    ("openapi", &["minitill openapi", "minitill openapi --admin"]),
    ("completions", &["minitill completions bash", "minitill completions zsh", "minitill completions fish"]),
    ("man", &["minitill man /usr/local/share/man/man1"]),
    ("audit", &["minitill audit", "minitill audit --json"]),
    (
        "report statement",
        &[
            "minitill report statement mygame --month 2026-10 --time-zone Asia/Shanghai",
            "minitill report statement mygame --day 2026-10-31 --json",
        ],
    ),
    ("report close", &["minitill report close mygame --month 2026-10 --time-zone Asia/Shanghai"]),
    ("report closed", &["minitill report closed mygame"]),
    (
        "report bill",
        &[
            "minitill report bill mygame --day 2026-10-31",
            "minitill report bill mygame --month 2026-10 --time-zone Asia/Shanghai --excel --out october.xlsx",
        ],
    ),
    (
        "reconcile",
        &[
            "minitill reconcile mygame their.csv",
            "minitill reconcile mygame their.csv --map order=biz_no --map player=open_id --day 2026-10-31",
            "minitill reconcile mygame gifts.csv --by ref --map coins=amount",
        ],
    ),
    ("price set", &["minitill price set mygame prices.csv"]),
    ("price list", &["minitill price list mygame"]),
    (
        "topup pay",
        &[
            "minitill topup pay mygame stripe pi_3OrtQ2 --currency CNY --amount 600 --paid-at 2026-11-21T08:00 --biz-no 20261121080000001",
        ],
    ),
    (
        "topup expect",
        &[
            "minitill topup expect mygame settlement.csv --provider wechat --map transaction_id=provider_order_id --map total=money --day 2026-11-21",
            "minitill topup expect mygame settlement.csv --provider wechat --currency CNY --apply",
        ],
    ),
    (
        "topup list",
        &[
            "minitill topup list mygame",
            "minitill topup list mygame --unmatched",
            "minitill topup list mygame --month 2026-11 --time-zone Asia/Shanghai --csv --out payments.csv",
        ],
    ),
    ("topup show", &["minitill topup show mygame stripe pi_3OrtQ2"]),
    ("topup consumption", &["minitill topup consumption mygame stripe pi_3OrtQ2"]),
    (
        "topup provider",
        &[
            "minitill topup provider mygame stripe --format stripe --secret - < stripe-secret.txt",
            "minitill topup provider mygame pay --format standard --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ],
    ),
    ("topup providers", &["minitill topup providers mygame"]),
    ("topup remove-provider", &["minitill topup remove-provider mygame stripe"]),
    (
        "topup refund",
        &[
            "minitill topup refund mygame stripe pi_3OrtQ2 --refund-id re_3OrtQ2 --amount 300 --reason case-4713",
            "minitill topup refund mygame stripe pi_3OrtQ2 --refund-id re_3OrtQ3 --amount 300 --reason chargeback --shortfall record",
        ],
    ),
    (
        "topup settle",
        &[
            "minitill topup settle mygame stripe pi_3OrtQ2 --biz-no 20261121080000001 --reason case-4711",
            "minitill topup settle mygame stripe pi_3OrtQ2 --paid-back --reason case-4712",
        ],
    ),
    (
        "archive",
        &[
            "minitill archive --before 2026-01",
            "minitill archive --before 2026-01 --to /srv/archives --compact",
        ],
    ),
    ("archive list", &["minitill archive list", "minitill archive list --app mygame"]),
    ("archive verify", &["minitill archive verify /srv/archives/*.tsv.gz"]),
    ("archive restore", &["minitill archive restore /srv/archives/mygame-1-before-2026-01-01.tsv.gz"]),
    ("operator-log", &["minitill operator-log --since 36h", "minitill operator-log --app mygame --json"]),
    ("app create", &["minitill app create mygame --scope epay", "minitill app create mytest --sandbox"]),
    ("app change", &["minitill app change mygame --name Chess"]),
    ("app list", &["minitill app list"]),
    ("app show", &["minitill app show mygame"]),
    ("app suspend", &["minitill app suspend mygame", "minitill app suspend mygame --yes  # asks nothing"]),
    ("app resume", &["minitill app resume mygame"]),
    ("app rotate-pay-key", &["minitill app rotate-pay-key mygame"]),
    ("app rotate-secret", &["minitill app rotate-secret mygame"]),
    ("app publish", &["minitill app publish mygame --version 1.0.0 --path pages/index --path pages/order"]),
    ("app limit", &["minitill app limit mygame --exchanges-per-second 500", "minitill app limit mygame"]),
    ("app poi add", &["minitill app poi add mygame poi-1 poi-2"]),
    ("app poi list", &["minitill app poi list mygame"]),
    ("app preorder add", &["minitill app preorder add mygame pay-000001"]),
    ("app preorder list", &["minitill app preorder list mygame"]),
    ("token issue", &["minitill token issue mygame", "minitill token issue mygame --ttl 30m"]),
    ("token list", &["minitill token list mygame"]),
    ("token revoke", &["minitill token revoke mygame --token -", "minitill token revoke mygame --all"]),
    ("login-code issue", &["minitill login-code issue mygame player-1"]),
    (
        "receiver add",
        &[
            "minitill receiver add mygame https://game.example.com/notify",
            "minitill receiver add mygame https://game.example.com/notify --event exchange.succeeded --event cancel.succeeded",
        ],
    ),
    (
        "receiver listen",
        &[
            "minitill receiver listen mytest --forward-to http://127.0.0.1:9000/till",
            "minitill receiver listen mytest --forward-to http://localhost:9000/ --event wallet.credited",
        ],
    ),
    ("receiver list", &["minitill receiver list mygame"]),
    ("receiver show", &["minitill receiver show mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver pause", &["minitill receiver pause mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver resume", &["minitill receiver resume mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver remove", &["minitill receiver remove mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver rotate-secret", &["minitill receiver rotate-secret mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver test", &["minitill receiver test mygame rcv_5f0c1a2b3c4d5e6f"]),
    ("receiver failed", &["minitill receiver failed mygame rcv_5f0c1a2b3c4d5e6f --since 2026-11-21"]),
    (
        "receiver resend",
        &[
            "minitill receiver resend mygame rcv_5f0c1a2b3c4d5e6f evt_019ab4739e0000112233445566778899000a",
            "minitill receiver resend mygame rcv_5f0c1a2b3c4d5e6f --since 2026-11-21T08:00 --until 2026-11-21T12:00",
        ],
    ),
    (
        "report revenue",
        &[
            "minitill report revenue mygame --since 2026-10-01 --until 2026-11-01 --time-zone Asia/Shanghai",
            "minitill report revenue mygame --group day,product_name --csv",
        ],
    ),
    (
        "report topups",
        &[
            "minitill report topups mygame --month 2026-10 --time-zone Asia/Shanghai",
            "minitill report topups mygame --month 2026-10 --group provider,product_id,currency --csv",
        ],
    ),
    (
        "report unused",
        &[
            "minitill report unused mygame",
            "minitill report unused mygame --at 2026-11-01 --time-zone Asia/Shanghai --excel --out unused.xlsx",
        ],
    ),
    ("report check", &["minitill report check mygame"]),
    ("sandbox serve", &["minitill sandbox serve", "minitill sandbox serve --seed seed.toml --port 0 --json"]),
    ("sandbox seed", &["minitill sandbox seed > seed.toml"]),
    (
        "sandbox fault",
        &[
            "minitill sandbox fault mytest exchange lost --times 3",
            "minitill sandbox fault mytest wallet.credited late --delay-ms 5000",
            "minitill sandbox fault mytest exchange refuse --code 10000601",
        ],
    ),
    ("sandbox faults", &["minitill sandbox faults mytest"]),
    ("sandbox end-faults", &["minitill sandbox end-faults mytest"]),
    ("sandbox check", &["minitill sandbox check mytest"]),
    ("user add", &["minitill user add mygame player-1 player-2"]),
    ("user list", &["minitill user list mygame", "minitill user list mygame --begins player"]),
    ("user show", &["minitill user show mygame player-1"]),
    ("player export", &["minitill player export mygame player-1 --out player-1.zip"]),
    ("player erase", &["minitill player erase mygame player-1"]),
    (
        "wallet credit",
        &[
            "minitill wallet credit mygame player-1 --free 40 --charge 100 --ref welcome-player-1",
            "minitill wallet credit mygame player-9 --free 5 --ref case-7 --create  # an unknown player",
        ],
    ),
    ("wallet debit", &["minitill wallet debit mygame player-1 --free 40 --ref mistake-1 --note mistake"]),
    ("wallet cancel", &["minitill wallet cancel mygame order1001 --amount 60 --ref case-8"]),
    (
        "wallet import",
        &[
            "minitill wallet import mygame balances.csv --dry-run",
            "minitill wallet import mygame balances.csv --note opening",
            "minitill wallet import mygame players.csv --free 100 --ref-prefix festival  # a gift to a list of players",
        ],
    ),
    (
        "wallet freeze",
        &[
            "minitill wallet freeze mygame player-1 --reason chargeback",
            "minitill wallet freeze mygame player-1 --reason chargeback --until 2027-01-31  # thaws by itself",
        ],
    ),
    ("wallet thaw", &["minitill wallet thaw mygame player-1 --reason settled"]),
    ("wallet show", &["minitill wallet show mygame player-1"]),
    ("wallet statement", &["minitill wallet statement mygame player-1 --format csv"]),
    ("exchange list", &["minitill exchange list order1001", "minitill exchange list order1001 --app mygame"]),
    ("exchange show", &["minitill exchange show mygame order1001"]),
    (
        "refusal list",
        &["minitill refusal list --app mygame --code 10000601", "minitill refusal list --open-id player-1"],
    ),
    (
        "order list",
        &["minitill order list mygame --open-id player-1", "minitill order list mygame --number pay-000001"],
    ),
    ("order show", &["minitill order show mygame order-000001"]),
    (
        "image block",
        &[
            "minitill image block cover.png --reason gore",
            "minitill image block cover.png --reason gore --yes",
        ],
    ),
    ("image unblock", &["minitill image unblock cover.png"]),
    ("image list", &["minitill image list", "minitill image list --all --limit 10"]),
    ("image show", &["minitill image show 0f0e0d0c0b0a09080706050403020100f0e0d0c0b0a09080"]),
    ("image move", &["minitill image move --to s3"]),
    ("image verify", &["minitill image verify"]),
    ("image sweep", &["minitill image sweep --dry-run"]),
    ("master-key show", &["minitill master-key show"]),
    ("master-key rotate", &["minitill master-key rotate --new-key-file new.key"]),
    ("master-key forget", &["minitill master-key forget"]),
    (
        "console-user add",
        &[
            "minitill console-user add alice --role admin",
            "minitill console-user add bob --role support --app mygame",
        ],
    ),
    ("console-user list", &["minitill console-user list"]),
    ("console-user set-password", &["minitill console-user set-password alice"]),
    ("console-user set-role", &["minitill console-user set-role alice viewer"]),
    ("console-user unlock", &["minitill console-user unlock alice"]),
    ("console-user reset-second-factor", &["minitill console-user reset-second-factor alice"]),
    ("console-user remove", &["minitill console-user remove alice"]),
    (
        "api-key create",
        &[
            "minitill api-key create backend --role admin",
            "minitill api-key create billing --role finance --app mygame",
        ],
    ),
    ("api-key list", &["minitill api-key list"]),
    ("api-key revoke", &["minitill api-key revoke backend"]),
];

/// The command with the examples in its help and in that of its own commands.
pub(super) fn with_examples(command: Command) -> Command {
    add(command, "")
}

fn add(command: Command, name: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let name = format!("{name} {}", inner.get_name());
        add(inner, name.trim_start())
    });
    match EXAMPLES.iter().find(|(known, _)| *known == name) {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::error::ErrorKind;
    use clap::{CommandFactory as _, Parser as _};
    use regex_lite::Regex;

    use super::*;
    use crate::cli::Arguments;

    /// The names of the commands that do something.
    fn names(command: &Command, name: &str) -> Vec<String> {
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let inner: Vec<String> = inner
            .flat_map(|inner| names(inner, format!("{name} {}", inner.get_name()).trim_start()))
            .collect();
        let acts = inner.is_empty() || command.is_args_conflicts_with_subcommands_set();
        acts.then(|| name.to_owned()).into_iter().chain(inner).collect()
    }

    /// Rule 8.1.9: more than eight options of a command stand in groups.
    #[test]
    fn many_options_stand_in_groups() {
        fn check(command: &Command) {
            let options: Vec<_> = command.get_arguments().filter(|option| !option.is_positional()).collect();
            let loose = options.iter().filter(|option| option.get_help_heading().is_none()).count();
            let name = command.get_name();
            assert!(
                options.len() <= 8 || loose <= 1,
                "{name}: {loose} of {} options have no group",
                options.len()
            );
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut commands = names(&Arguments::command(), "");
        commands.sort_unstable();
        let mut shown: Vec<String> = EXAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        shown.sort_unstable();
        assert_eq!(shown, commands, "a new command needs its row in EXAMPLES");
        for (name, lines) in EXAMPLES {
            for line in lines {
                let line = line.split("  #").next().unwrap_or_default();
                let line = line.split(" > ").next().unwrap_or_default();
                let line = line.split(" < ").next().unwrap_or_default();
                let parsed = Arguments::try_parse_from(line.split(' '));
                assert!(
                    parsed.is_ok() && line.starts_with(&format!("minitill {name}")),
                    "{line}: {parsed:?}"
                );
            }
        }
    }

    /// The commands that a page shows, in its blocks and within its text, as far as they are plain words.
    fn commands_of(page: &str) -> Vec<String> {
        let inline = Regex::new("`(minitill [^`]+)`").unwrap();
        let mut is_code = false;
        let mut lines: Vec<&str> =
            inline.captures_iter(page).map(|found| found.get(1).unwrap().as_str()).collect();
        for line in page.lines() {
            is_code ^= line.starts_with("```");
            lines.extend(Some(line.trim()).filter(|line| is_code && line.starts_with("minitill ")));
        }
        let plain = |line: &str| {
            let line = line.split("...").next().unwrap_or_default();
            line.split(['\'', '"', '|', '<', '>', '#', ';', '&', '$', '\\', '(', '[', '…'])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        lines.into_iter().map(plain).filter(|line| !line.contains(" COMMAND")).collect()
    }

    /// A page shows only commands and options that there are.
    #[test]
    fn every_command_of_a_page_is_known() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut pages = vec![top.join("README.md"), top.join("README.zh-CN.md")];
        let docs = std::fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
        let (mut shown, mut unknown) = (0, Vec::new());
        for path in pages {
            for line in commands_of(&std::fs::read_to_string(&path).unwrap()) {
                shown += 1;
                // With `--help` behind it, nothing that is needed lacks.
                let parsed = Arguments::try_parse_from(line.split_whitespace().chain(["--help"]));
                let kind = parsed.err().map(|error| error.kind());
                if matches!(kind, Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)) {
                    unknown.push(format!("{}: {line}", path.display()));
                }
            }
        }
        assert!(shown > 300, "only {shown} commands were found");
        assert!(unknown.is_empty(), "pages show what there is not: {unknown:#?}");
    }
}
