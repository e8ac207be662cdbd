//! The operations of an operator: each is in every face that the contract names (section 8), and the faces refuse it in the
//! same words.

use std::collections::BTreeSet;

use domain::console_user::Role;
use minitill::operator::operations::{FaceEntry, OPERATIONS, READINGS};
use minitill::operator::{admin, console};
use store::OPERATOR_ACTIONS;

use crate::admin::Caller;
use crate::support::TestTill;
use crate::support::program::Program;

/// What the operator's log has of files and of the master key, whose commands stay with the command line.
const NO_OPERATIONS: [&str; 5] =
    ["archive.write", "archive.restore", "sandbox.fault", "master_key.rotate", "master_key.rotated"];
/// Forms of the console that are no operation, by the end of their paths. They preview, look, sign in and out, or are a
/// second form of one.
const CONSOLE_ALONE: [&str; 8] = [
    "/account-requests/confirm",
    "/account-requests/refuse",
    "/account/sessions/end",
    "/check",
    "/console/language",
    "/console/sign-in",
    "/console/sign-out",
    "/resend-failed",
];
/// Rule: what a face has, a row names; and a face lacks what no row names for it. So the list of what one can do and another
/// cannot is exact, and each gap has its reason.
#[test]
fn each_operation_and_each_reading_is_in_the_faces_that_its_row_names() {
    let mut logged: BTreeSet<&str> = OPERATOR_ACTIONS.iter().copied().collect();
    for action in OPERATIONS.iter().map(|operation| operation.action).chain(NO_OPERATIONS) {
        assert!(
            logged.remove(action),
            "no line of the operator's log has the action {action}, or it is named twice"
        );
    }
    assert!(logged.is_empty(), "no face is named for {logged:?}");

    let rows = || OPERATIONS.iter().chain(READINGS);
    let commands = include_str!("../../docs/cli.md");
    let sections = commands.split("\n## minitill ").skip(1);
    // One with commands of its own is no command, but for `archive`.
    let leaves =
        sections.filter(|section| !section.contains("\nCommands:\n") || section.starts_with("archive\n"));
    let mut left: BTreeSet<&str> = leaves.map(|section| section.lines().next().unwrap()).collect();
    for row in rows() {
        if let Some(command) = row.command.name() {
            assert!(left.remove(command), "{}: no command {command}, or it is named twice", row.action);
        }
    }
    assert!(left.is_empty(), "commands without a row: {left:?}");

    let mut calls: BTreeSet<&str> = admin::ROUTES.iter().map(|route| route.id).collect();
    for row in rows() {
        if let Some(id) = row.admin.name() {
            assert!(calls.remove(id), "{}: the admin API has no call {id}, or it is named twice", row.action);
        }
    }
    assert!(calls.is_empty(), "calls of the admin API without a row: {calls:?}");

    let of_method = |method: &str| -> BTreeSet<&str> {
        let routes =
            console::routes().filter(|route| route.method == method && route.access.need().is_some());
        routes.map(|route| route.path).collect()
    };
    let (forms, pages) = (of_method("POST"), of_method("GET"));
    let (mut left_forms, mut left_pages) = (forms.clone(), pages.clone());
    for row in rows() {
        let Some(path) = row.console.name() else { continue };
        assert!(forms.contains(path) || pages.contains(path), "{}: the console has no {path}", row.action);
        left_forms.remove(path);
        left_pages.remove(path);
    }
    let is_alone = |path: &&str| CONSOLE_ALONE.iter().any(|end| path.ends_with(end));
    for alone in
        CONSOLE_ALONE.iter().filter(|alone| !["/console/language", "/console/sign-in"].contains(alone))
    {
        assert!(left_forms.iter().any(|path| path.ends_with(alone)), "the console has no form {alone}");
    }
    left_forms.retain(|path| !is_alone(path));
    assert!(left_forms.is_empty(), "forms without a row: {left_forms:?}");
    // A form has its page.
    left_pages.retain(|page| !forms.contains(page));
    assert!(left_pages.is_empty(), "pages without a row: {left_pages:?}");
    for row in rows() {
        for face in [row.command, row.admin, row.console] {
            assert!(
                !matches!(face, FaceEntry::Lacks(reason) if reason.len() < 10),
                "{}: no reason",
                row.action
            );
        }
    }
}

/// A refusal in each face: what the command line, the admin API and the console are asked for.
struct Refused {
    words: &'static str,
    command: &'static [&'static str],
    call: (&'static str, &'static str, &'static str),
    form: (&'static str, &'static [(&'static str, &'static str)]),
}

/// The id of no receiver.
const NO_RECEIVER: &str = "rcv_0000000000000000";
/// The refusals of each face. `ID` is the id of no receiver.
const REFUSALS: [Refused; 8] = [
    Refused {
        words: "the player has 5 gifted and 1 charged coins",
        command: &["wallet", "debit", "a1", "o1", "--free", "6", "--ref", "r2"],
        call: ("POST", "/apps/a1/wallets/o1/debits", r#"{ "free": 6, "ref": "r2" }"#),
        form: ("/console/apps/a1/players/o1/debit", &[("gifted", "6"), ("reference", "r2"), ("reason", "x")]),
    },
    Refused {
        words: "the ref r1 was used for another player or with other amounts",
        command: &["wallet", "credit", "a1", "o1", "--free", "6", "--ref", "r1"],
        call: ("POST", "/apps/a1/wallets/o1/credits", r#"{ "free": 6, "ref": "r1" }"#),
        form: (
            "/console/apps/a1/players/o1/credit",
            &[("gifted", "6"), ("reference", "r1"), ("reason", "x")],
        ),
    },
    Refused {
        words: "a balance would be more than 9223372036854775807",
        command: &["wallet", "credit", "a1", "o1", "--charge", "9223372036854775807", "--ref", "r3"],
        call: ("POST", "/apps/a1/wallets/o1/credits", r#"{ "charge": 9223372036854775807, "ref": "r3" }"#),
        form: (
            "/console/apps/a1/players/o1/credit",
            &[("charged", "9223372036854775807"), ("reference", "r3"), ("reason", "x")],
        ),
    },
    Refused {
        words: "there is no player o9 of an app a1",
        command: &["wallet", "credit", "a1", "o9", "--free", "6", "--ref", "r4"],
        call: ("POST", "/apps/a1/wallets/o9/credits", r#"{ "free": 6, "ref": "r4" }"#),
        form: (
            "/console/apps/a1/players/o9/credit",
            &[("gifted", "6"), ("reference", "r4"), ("reason", "x")],
        ),
    },
    Refused {
        words: "there is an app a1 already",
        command: &["app", "create", "a1"],
        call: ("POST", "/apps", r#"{ "app_id": "a1" }"#),
        form: ("/console/new-app", &[("app_id", "a1")]),
    },
    Refused {
        words: "there is no app a9",
        command: &["app", "suspend", "a9", "--yes"],
        call: ("PUT", "/apps/a9/suspension", "{}"),
        form: ("/console/apps/a9/suspend", &[("reason", "x")]),
    },
    Refused {
        words: "there is no such token of the app a1",
        command: &["token", "revoke", "a1", "--token", "t"],
        call: ("POST", "/apps/a1/token-revocations", r#"{ "access_token": "t" }"#),
        form: ("/console/apps/a1/token-revocations", &[("access_token", "t")]),
    },
    Refused {
        words: "there is no receiver ID of an app a1",
        command: &["receiver", "pause", "a1", NO_RECEIVER],
        call: ("PUT", "/apps/a1/receivers/ID/pause", "{}"),
        form: ("/console/apps/a1/receivers/ID/pause", &[]),
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn every_face_refuses_in_the_same_words() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let (program, browser) = (Program::on(&till.database_url), till.browser(Role::Admin).await);
    let caller = Caller::admin(&till).await;
    program
        .json(&["wallet", "credit", "a1", "o1", "--free", "5", "--charge", "1", "--ref", "r1", "--create"]);
    let none = NO_RECEIVER;
    let id = |face: &str| face.replace("ID", none);
    for Refused { words, command, call: (method, path, body), form: (page, fields) } in REFUSALS {
        let words = id(words);
        let complaint = program.complaint(command);
        assert!(complaint.starts_with(&format!("minitill: {words}")), "{complaint}");
        let key = words.replace(' ', "-");
        let once = (method == "POST").then_some(key.as_str());
        let answer = caller.send(method, &id(path), once, &serde_json::from_str(body).unwrap()).await;
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.starts_with(&words), "{words}: {}", answer.body);
        let shown = browser.post(&id(page), fields).await.body;
        let sentence = format!(">{}{}.", words[..1].to_uppercase(), &words[1..]);
        let plain = shown.replace(&format!("<span class=\"id\" title=\"{none}\">{none}</span>"), none);
        assert!(plain.contains(&sentence), "{sentence}: {shown}");
    }
}
