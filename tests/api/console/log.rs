//! The log of what operators did, as a page.

use domain::console_user::Role;
use domain::ids::AppId;
use domain::operation::app::AppCommand;
use domain::operator::{Operator, OperatorKind};

use crate::support::TestTill;

/// Subjects of the page's lines, in order.
fn subjects(body: &str) -> Vec<String> {
    let cells = body.split("<td data-label=\"Subject\">").skip(1);
    cells.map(|rest| rest.split(['<', '>']).nth(2).unwrap().to_owned()).collect()
}

fn older(body: &str) -> Option<String> {
    let (before, _) = body.split_once("\">Older lines</a>")?;
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    Some(address.replace("&#38;", "&").replace("&amp;", "&"))
}

/// The log of yesterday and today by the machine's clock, as the database has it. A search for a text needs a period.
fn around_now(query: &str) -> String {
    let (now, day) = (time::OffsetDateTime::now_utc(), time::Duration::days(1));
    format!("/console/log?from={}&to={}&{query}", (now - day).date(), (now + day).date())
}

/// Rule: text of operators and developers shows as text.
#[tokio::test(flavor = "multi_thread")]
async fn html_in_names_and_reasons_shows_as_text() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let hostile = "<script>alert(1)</script>\"'&";
    let operator = Operator::new(OperatorKind::CommandLine, hostile).unwrap();
    till.store.carry_out(&operator, &AppId::parse("a1").unwrap(), AppCommand::Suspend(true)).await.unwrap();
    till.execute(
        "UPDATE operator_log SET note = '<img src=x onerror=alert(2)>', subject = '<b>bold</b>',
                before = '{\"<i>field</i>\": \"<u>was</u>\"}', after = '{\"<i>field</i>\": \"<u>is</u>\"}'
         WHERE action = 'app.suspend'",
    )
    .await;
    let admin = till.browser(Role::Admin).await;
    let found = around_now("operator=%3Cscript%3E&subject=%3Cb%3Ebold%3C%2Fb%3E");
    for path in ["/console/log", &found] {
        let page = admin.get(path).await;
        assert_eq!(page.status, 200);
        for shown in ["script", "img src=x", "b&#62;bold", "i&#62;field", "u&#62;was", "u&#62;is"] {
            assert!(page.body.contains(&format!("&#60;{shown}")), "{shown} in {}", page.body);
        }
        for raw in ["<script>", "<img", "<b>", "<i>", "<u>"] {
            assert!(!page.body.contains(raw), "{raw} in {}", page.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_shows_what_was_and_what_became() {
    let till = TestTill::start().await;
    till.app("a1").await;
    let operator = Operator::new(OperatorKind::ApiKey, "robot").unwrap();
    till.store.carry_out(&operator, &AppId::parse("a1").unwrap(), AppCommand::Suspend(true)).await.unwrap();
    let page = till.browser(Role::Viewer).await.get(&around_now("operator=robot")).await;
    let change =
        "suspended: <del class=\"id\" title=\"no\">no</del> → <ins class=\"id\" title=\"yes\">yes</ins>";
    assert!(page.body.contains(change), "{}", page.body);
    assert!(page.body.contains("robot <small class=\"muted\">API key</small>"));
    assert!(page.body.contains("popovertarget=\"filter\""), "rule 8.6.51: {}", page.body);

    // Rule 8.6.53: times, numbers and money as on other pages.
    till.execute(
        "UPDATE operator_log SET note = 'late', before = '{\"until\": null, \"free_balance\": 38}',
             after = '{\"until\": \"2027-01-31T00:00:00.5Z\", \"free_balance\": 20038, \"currency\": \"CNY\", \"amount\": 600}'
         WHERE action = 'app.suspend'",
    )
    .await;
    let page = till.browser(Role::Viewer).await.get(&around_now("operator=robot")).await;
    for shown in [
        "<ins><time datetime=\"2027-01-31T00:00:00Z\" title=\"2027-01-31 00:00:00 UTC\">2027-01-31 00:00:00</time></ins>",
        "<del class=\"id\" title=\"38\">38</del> → <ins class=\"id\" title=\"20\u{202f}038\">",
        "amount: <ins class=\"id\" title=\"6.00 CNY\">",
        "Reason: late</p>",
    ] {
        assert!(page.body.contains(shown), "{shown} in {}", page.body);
    }
}

/// Rule: pages of a log that grows neither skip a line nor show one twice.
#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_while_lines_are_added() {
    let till = TestTill::start().await;
    // Many lines of one moment, so that the moment alone does not tell them apart.
    let add = async |first: u32, last: u32, at: &str| {
        till.execute(&format!(
            "INSERT INTO operator_log (seq, chain_hash, content_hash, app_id, at, id, operator_kind, operator, action, subject, note)
             SELECT 1000 + n, sha256(''), sha256(''), 'a1', {at}, hashint4(n), 'console', 'alice', 'test', 's' || n, '' FROM generate_series({first}, {last}) AS n"
        ))
        .await;
    };
    add(1, 120, "'2026-11-21T08:00:00Z'").await;
    let viewer = till.browser(Role::Viewer).await;
    let mut address = Some("/console/log?app_id=a1&from=2026-11-21".to_owned());
    let (mut seen, mut pages) = (Vec::new(), 0);
    while let Some(path) = address {
        let page = viewer.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        seen.extend(subjects(&page.body));
        pages += 1;
        assert!(pages < 10, "pages without an end");
        add(pages * 1000, pages * 1000 + 70, "now()").await;
        address = older(&page.body);
    }
    assert_eq!((pages, seen.len()), (3, 120));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_select_and_a_filter_that_cannot_be_read_is_named() {
    let till = TestTill::start().await;
    till.execute(
        "INSERT INTO operator_log (seq, chain_hash, content_hash, app_id, at, id, operator_kind, operator, action, subject, note) VALUES
         (91, sha256(''), sha256(''), 'a1', '2020-11-21T08:00:00Z', 1, 'console', 'alice', 'test', 'one', ''),
         (92, sha256(''), sha256(''), 'a2', '2020-11-21T09:00:00Z', 2, 'console', 'bob', 'test', 'two', ''),
         (93, sha256(''), sha256(''), 'a2', '2020-11-22T00:00:00Z', 3, 'console', 'bob', 'test', 'three', '')",
    )
    .await;
    let viewer = till.browser(Role::Viewer).await;
    let shown = async |query: &str| {
        subjects(&viewer.get(&format!("/console/log?to=2020-12-01&from=2020-10-01&{query}")).await.body)
    };
    assert_eq!(shown("app_id=a1").await, ["one"]);
    assert_eq!(shown("operator=bo").await, ["three", "two"]);
    let later = viewer.get("/console/log?to=2020-12-01&from=2020-11-21T08%3A30&app_id=").await;
    assert_eq!(subjects(&later.body), ["three", "two"]);
    assert_eq!(shown("subject=three").await, ["three"]);
    assert_eq!(shown("subject=none").await, Vec::<String>::new());
    for (query, named) in
        [("from=yesterday", "Expected "), ("app_id=a%20b", "Expected "), ("after=x", "after: expected")]
    {
        let page = viewer.get(&format!("/console/log?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        assert!(page.body.contains(named), "{}", page.body);
    }
}

/// Rule 8.6.29: the subject of a line leads to its page, where it has one that the user may see.
#[tokio::test(flavor = "multi_thread")]
async fn a_subject_leads_to_its_page() {
    let till = TestTill::start().await;
    let (receiver, sha256) = ("rcv_0123456789abcdef", "ab".repeat(32));
    // App, action, subject, and the page: of admins alone where a star stands.
    let lines = [
        ("a1", "app.suspend", "a1", "/console/apps/a1"),
        ("a1", "app.publish", "1.0", ""),
        ("a1", "wallet.credit", "o1", "/console/apps/a1/players/o1"),
        ("a1", "wallet.debit", "o2", "/console/apps/a1/players/o2"),
        ("a1", "wallet.credits", "o3", ""),
        ("a1", "wallet.credits", "g1", "*/console/apps/a1/gifts/g1"),
        ("a1", "wallet.freeze", "o5", "/console/apps/a1/players/o5"),
        ("a1", "wallet.thaw", "o5", "/console/apps/a1/players/o5"),
        ("a1", "topup.settle", "bank/p/1", "/console/apps/a1/topups/bank/p%2F1"),
        ("a1", "topup.refund", "bank/p/1/r1", "/console/apps/a1/topups/bank/p%2F1"),
        ("a1", "price.set", "a1", "/console/apps/a1/prices"),
        ("a1", "user.add", "a1", "/console/apps/a1"),
        ("a1", "login_code.issue", "o4", "/console/apps/a1/players/o4"),
        ("a1", "token.issue", "0123", "/console/apps/a1/tokens"),
        ("a1", "receiver.pause", receiver, "/console/apps/a1/receivers/rcv_0123456789abcdef"),
        ("a1", "receiver.remove", receiver, ""),
        ("", "image.block", &sha256, "/console/images?picture="),
        ("", "console_user.set_role", "bob", "*/console/users/bob"),
        ("", "console_user.remove", "bob", ""),
        ("", "api_key.create", "backend", "/console/api-keys"),
        ("", "master_key.rotate", "k1", ""),
        ("a1", "wallet.credit", "<b>", ""),
    ];
    for (number, (app, action, subject, _)) in lines.iter().enumerate() {
        till.execute(&format!(
            "INSERT INTO operator_log (seq, chain_hash, content_hash, app_id, at, id, operator_kind, operator, action, subject, note)
             VALUES ({}, sha256(''), sha256(''), '{app}', now(), {number}, 'console', 'tester', '{action}', '{subject}', '')",
            1000 + number
        ))
        .await;
    }
    till.execute("UPDATE operator_log SET after = '{\"gift\": \"g1\"}' WHERE subject = 'g1'").await;
    for role in [Role::Admin, Role::Viewer] {
        let page = till.browser(role).await.get(&around_now("operator=tester")).await.body;
        let cells: Vec<&str> = page.split("<td data-label=\"Subject\">").skip(1).collect();
        let cells: Vec<&str> = cells.iter().map(|rest| rest.split("</td>").next().unwrap()).collect();
        assert_eq!(cells.len(), lines.len());
        for (cell, (_, action, subject, path)) in cells.into_iter().zip(lines.iter().rev()) {
            let subject = subject.replace('<', "&#60;").replace('>', "&#62;");
            let path = if path.ends_with('=') { format!("{path}{subject}") } else { (*path).to_owned() };
            let path = match path.strip_prefix('*') {
                Some(path) if role == Role::Admin => path.to_owned(),
                Some(_) => String::new(),
                None => path,
            };
            let expected = if path.is_empty() {
                format!("<span class=\"id\" title=\"{subject}\">{subject}</span>")
            } else {
                format!("<a class=\"id\" title=\"{subject}\" href=\"{path}\">{subject}</a>")
            };
            assert_eq!(cell, expected, "{action}");
        }
    }
}

/// Rule 8.6.53: the log by action, and by people or programs; a line of many credits leads to its players.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_selected_by_action_and_by_who_made_it() {
    use serde_json::json;

    use crate::admin::Caller;

    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 1, 0).await;
    let caller = Caller::admin(&till).await;
    let credits = json!({"note": "fair", "credits": [
        {"open_id": "o1", "free": 5, "ref": "g1"}, {"open_id": "o1", "charge": 7, "ref": "g2"},
    ]});
    assert_eq!(caller.send("POST", "/apps/a1/credits:batch", None, &credits).await.status, 200);
    let admin = till.browser(Role::Admin).await;
    let credit = [("gifted", "3"), ("reference", "c1"), ("reason", "late")];
    assert_eq!(admin.post("/console/apps/a1/players/o1/credit", &credit).await.status, 303);
    let found = async |query: &str| subjects(&admin.get(&format!("/console/log?{query}")).await.body);
    assert_eq!(found("by=programs").await, ["credits:batch"]);
    assert_eq!(found("action=wallet.credit").await, ["o1", "o1"]);
    assert_eq!(found("action=wallet.credit&by=programs").await, [""; 0]);
    assert!(!found("by=people").await.contains(&"credits:batch".to_owned()));
    let page = admin.get("/console/log?by=programs").await;
    assert!(
        page.body.contains("Of the last 92 days.") && page.body.contains("2 credits, each with its player")
    );
    // Rule 8.5.9: so it is of a subject or an operator.
    assert_eq!(found("subject=g1&by=programs").await, ["credits:batch"]);
    let of_nobody = admin.get("/console/log?operator=nobody").await;
    assert!(of_nobody.status == 200 && of_nobody.body.contains("Of the last 92 days."), "{}", of_nobody.body);
    let seq = till.number("SELECT seq FROM operator_log WHERE action = 'wallet.credits'").await;
    let players = admin.get(&format!("/console/log/{seq}/credits")).await;
    assert_eq!(
        super::reading::rows(&players.body),
        [
            ["1", "o1", "5", "0", "6 gifted, 0 charged", "g1"],
            ["2", "o1", "0", "7", "6 gifted, 7 charged", "g2"],
        ]
    );
    assert_eq!(super::accessible::faults(&players.body), [""; 0]);
    assert_eq!(admin.get(&format!("/console/log/{}/credits", seq - 1)).await.status, 404);
    assert_eq!(admin.get("/console/log/x/credits").await.status, 404);
    let rights =
        domain::rights::Rights { role: Role::Admin, apps: domain::rights::Apps::parse("a2").unwrap() };
    let stranger = till.browser_of(rights).await;
    assert_eq!(stranger.get(&format!("/console/log/{seq}/credits")).await.status, 404, "of another app");
    let wrong = admin.get("/console/log?action=wallet.eat").await;
    assert!(wrong.status == 400 && wrong.body.contains("Expected an action of the log"), "{}", wrong.body);
    // The other faces take the same.
    let since = (time::OffsetDateTime::now_utc() - time::Duration::days(1)).date();
    let listed =
        caller.get(&format!("/operator-log?since={since}&by=programs&action=wallet.credits")).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let refused = caller.get("/operator-log?by=programs").await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    let program = crate::support::program::Program::on(&till.database_url);
    let printed = program.json(&["operator-log", "--by", "programs", "--action", "wallet.credits"]);
    assert_eq!(printed["lines"][0]["seq"], json!(seq), "{printed}");
}
