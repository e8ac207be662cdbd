//! The console and the admin API: what opens them, and what they show once.

use std::io::Write as _;

use super::{FREE_TEXT, Output, Planted, Talker, WRONG_SECRET, WRONG_SIGN, WRONG_TOKEN, between, command};
use crate::service::game::Game;
use crate::service::program::Program;
use crate::service::{Request, TestApp, form};

const CONSOLE_PASSWORD: &str = "planted console password 7c";
const WRONG_CONSOLE_PASSWORD: &str = "planted wrong console password 2e";
const WRONG_API_KEY: &str = "mtk_planted0wrong0api0key01f2e3d4c5b6a79";
const NEW_PASSWORD: &str = "planted new console password 9b";

/// Those that are the same throughout.
pub(super) fn planted_by_hand() -> [Planted; 4] {
    [
        ("a console user's password", CONSOLE_PASSWORD),
        ("a wrong password", WRONG_CONSOLE_PASSWORD),
        ("a new password", NEW_PASSWORD),
        ("a wrong API key", WRONG_API_KEY),
    ]
    .map(|(name, text)| Planted { name, text: text.to_owned(), may_be_answered: false })
}

/// Signs in well and badly, and walks through the console as a viewer, who is shown no address of a player. Then
/// asks the admin API with every kind of key.
pub(super) async fn drive(
    talker: &Talker,
    program: &Program,
    app: &TestApp,
    planted: &mut Vec<Planted>,
    outputs: &mut Vec<Output>,
) {
    let user = format!("viewer-{}", app.id);
    outputs.push(with_password(
        program,
        &["console-user", "add", &user, "--role", "viewer"],
        CONSOLE_PASSWORD,
    ));
    outputs.push(command(program, &["console-user", "list"]));
    sign_in(talker, &user, WRONG_CONSOLE_PASSWORD, planted, outputs).await;
    let session = sign_in(talker, &user, CONSOLE_PASSWORD, planted, outputs).await.expect("a session");
    console(talker, app, &session, outputs).await;
    admin_api(talker, program, app, planted, outputs).await;
    outputs.push(with_password(program, &["console-user", "set-password", &user], NEW_PASSWORD));
    outputs.push(with_password(program, &["console-user", "set-password", &user], "short"));
    outputs.push(command(program, &["operator-log", "--all"]));
}

/// Asks for a session; its token is planted, and may be in that answer alone.
async fn sign_in(
    talker: &Talker,
    user: &str,
    password: &str,
    planted: &mut Vec<Planted>,
    outputs: &mut Vec<Output>,
) -> Option<String> {
    let request = Request::post("/console/sign-in")
        .header("origin", "http://localhost")
        .body(form(&[("name", user), ("password", password)]));
    let mut elsewhere = Vec::new();
    let answer =
        talker.ask_bytes(talker.operator_address, "a sign-in", &request.bytes(), &mut elsewhere).await;
    let token = between(&answer, "minitill_console=", ";");
    if let Some(token) = &token {
        planted.push(Planted { name: "a session's token", text: token.clone(), may_be_answered: false });
    } else {
        outputs.append(&mut elsewhere);
    }
    token
}

/// Pages that come near secrets and addresses, and forms that hold some.
async fn console(talker: &Talker, app: &TestApp, session: &str, outputs: &mut Vec<Output>) {
    let cookie = format!("minitill_console={session}");
    let with_session =
        |request: Request| request.header("cookie", &cookie).header("origin", "http://localhost");
    let mut ask = async |name: &str, request: Request| {
        talker.ask_bytes(talker.operator_address, name, &with_session(request).bytes(), outputs).await
    };
    let id = &app.id;
    let overview = ask("the overview", Request::get("/console")).await;
    let csrf = between(&overview, "name=\"csrf\" value=\"", "\"").expect("a form");
    for path in [
        format!("/console/apps/{id}"),
        format!("/console/apps/{id}/players/o1"),
        format!("/console/apps/{id}/players/o1/ledger.csv"),
        format!("/console/apps/{id}/exchanges/b1"),
        "/console/exchanges?number=b1".to_owned(),
        format!("/console/orders?app_id={id}"),
        "/console/users".to_owned(),
        format!("/console/nowhere/{}", app.token.len()),
    ] {
        ask("a page of the console", Request::get(&path)).await;
    }
    // What is pasted here shall be shown without its credentials.
    let game = Game::new(app, "o1", "b7", 1).with("user_ip", "203.0.113.77");
    for pasted in
        [game.clone().body(), game.clone().with("sign", WRONG_SIGN).body(), game.keyed(WRONG_SECRET).body()]
    {
        let fields = [("csrf", csrf.as_str()), ("request", pasted.as_str())];
        ask("the signature check", Request::post("/console/signature-check").body(form(&fields))).await;
    }
    let not_allowed = form(&[("csrf", csrf.as_str()), ("reason", FREE_TEXT)]);
    ask("an admin's form", Request::post(&format!("/console/apps/{id}/rotate-secret")).body(not_allowed))
        .await;
    let foreign = form(&[("csrf", WRONG_TOKEN), ("request", "a=b")]);
    ask("a foreign form", Request::post("/console/signature-check").body(foreign)).await;
}

/// Requests with no, wrong and right keys. New secrets are planted, and may be in the answers that show them alone.
async fn admin_api(
    talker: &Talker,
    program: &Program,
    app: &TestApp,
    planted: &mut Vec<Planted>,
    outputs: &mut Vec<Output>,
) {
    let id = &app.id;
    let mut key = |role: &str| {
        let made = program.json(&["api-key", "create", &format!("{role}-{id}"), "--role", role]);
        let key = made["api_key"].as_str().unwrap().to_owned();
        planted.push(Planted { name: "an API key", text: key.clone(), may_be_answered: false });
        key
    };
    let (admin, viewer) = (key("admin"), key("viewer"));
    outputs.push(command(program, &["api-key", "list"]));
    let secret_field = format!("{{\"app_secret\":\"{WRONG_SECRET}\",\"{FREE_TEXT}\":1}}");
    let rotate = format!("/admin/v1/apps/{id}/pay-keys");
    for key in ["", WRONG_API_KEY, &viewer, &admin] {
        let with_key = |request: Request| request.header("authorization", &format!("Bearer {key}"));
        let mut ask = async |name: &str, request: Request| {
            talker.ask_bytes(talker.operator_address, name, &with_key(request).bytes(), outputs).await
        };
        ask("the list of apps", Request::get("/admin/v1/apps")).await;
        ask("an app", Request::get(&format!("/admin/v1/apps/{id}"))).await;
        ask("a path that is none", Request::get(&format!("/admin/v1/{id}?access_token={WRONG_TOKEN}"))).await;
        let unknown = Request::post("/admin/v1/apps")
            .header("content-type", "application/json")
            .header("idempotency-key", "k1")
            .body(secret_field.clone());
        ask("a field that is none", unknown).await;
        if key != admin {
            ask("an exchange", Request::get(&format!("/admin/v1/apps/{id}/exchanges/b1"))).await;
            ask("a rotation", Request::post(&rotate).header("idempotency-key", "k2")).await;
        }
    }
    // Twice: the second answer is the first one, kept under the master key until then.
    for _ in 0..2 {
        let request = Request::post(&rotate)
            .header("authorization", &format!("Bearer {admin}"))
            .header("content-type", "application/json")
            .header("idempotency-key", "k3")
            .body("{}");
        let mut shown = Vec::new();
        let answer =
            talker.ask_bytes(talker.operator_address, "a rotation", &request.bytes(), &mut shown).await;
        let pay_key = between(&answer, "\"pay_key\":\"", "\"")
            .unwrap_or_else(|| panic!("a new pay key: {}", String::from_utf8_lossy(&answer)));
        planted.push(Planted { name: "a new pay key", text: pay_key, may_be_answered: false });
    }
}

/// A command that reads a password.
fn with_password(program: &Program, arguments: &[&str], password: &str) -> Output {
    let mut command = program.command(arguments);
    let piped = std::process::Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let said = child.wait_with_output().unwrap();
    Output {
        name: format!("the output of {arguments:?}"),
        bytes: [said.stdout, said.stderr].concat(),
        is_answer: false,
    }
}
