//! Requests about personal data in the console and in the admin API (contract 13.6.8 and 13.7.10).

use std::io::{Cursor, Read as _};

use domain::console_user::Role;
use serde_json::Value;
use zip::ZipArchive;

use super::reading::content;
use crate::admin::Caller;
use crate::support::{Answer, TestTill};

const PLAYER: &str = "/console/apps/a1/players/o1";
const REASON: (&str, &str) = ("reason", "case 4711");

/// A file of an export.
fn file_of(answer: &Answer, name: &str) -> String {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/zip")));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"player-a1-o1.zip\""));
    let mut zip = ZipArchive::new(Cursor::new(answer.complete_bytes().unwrap())).unwrap();
    let mut text = String::new();
    zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// The notes of the lines of this action in the operator's log, with what they are about.
async fn lines(till: &TestTill, action: &str) -> Vec<(String, String)> {
    let lines = "SELECT subject, note FROM operator_log WHERE action = $1 ORDER BY seq";
    sqlx::query_as(lines).bind(action).fetch_all(&till.sql).await.unwrap()
}

/// Rule 13.6.8: the export of the console and of the admin API is that of the command, and is in the operator's log.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_exports_a_player() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 10, 100).await;
    let admin = till.browser(Role::Admin).await;
    let link = format!("href=\"{PLAYER}/personal-data\"");
    assert!(admin.get(PLAYER).await.body.contains(&link));
    assert!(!till.browser(Role::Viewer).await.get(PLAYER).await.body.contains(&link));
    assert_eq!(admin.get(&format!("{PLAYER}/personal-data")).await.status, 200);
    let path = format!("{PLAYER}/export");
    let without = admin.post(&path, &[]).await;
    assert!(without.status == 400 && lines(&till, "player.export").await.is_empty(), "{}", without.body);
    let by_console = admin.post(&path, &[REASON]).await;
    let caller = Caller::admin(&till).await;
    let by_key = caller.get("/apps/a1/players/o1/export").await;
    for answer in [&by_console, &by_key] {
        let wallet: Value = serde_json::from_str(&file_of(answer, "wallet.json")).unwrap();
        assert_eq!((&wallet[0]["free_balance"], &wallet[0]["charge_balance"]), (&10.into(), &100.into()));
    }
    let expected = [("o1", "case 4711"), ("o1", "")].map(|(id, note)| (id.to_owned(), note.to_owned()));
    assert_eq!(lines(&till, "player.export").await, expected);
    let nobody = "/console/apps/a1/players/nobody";
    assert_eq!(admin.get(&format!("{nobody}/personal-data")).await.status, 404);
    assert_eq!(admin.post(&format!("{nobody}/export"), &[REASON]).await.status, 404);
    assert_eq!(caller.get("/apps/a1/players/nobody/export").await.status, 404);
}

/// Rule 13.7.10: the console erases the player whose id was typed once more, and tells what was left. The page of the
/// pseudonym tells who has erased the player.
#[tokio::test(flavor = "multi_thread")]
async fn an_admin_erases_a_player_whose_id_was_typed() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 10, 100).await;
    let admin = till.browser(Role::Admin).await;
    let path = format!("{PLAYER}/erase");
    let wrong: [&[(&str, &str)]; 4] = [&[], &[REASON], &[("open_id", "o1")], &[REASON, ("open_id", "o2")]];
    for fields in wrong {
        let refused = admin.post(&path, fields).await;
        assert_eq!(refused.status, 400, "{fields:?}: {}", refused.body);
    }
    assert_eq!(admin.get(PLAYER).await.status, 200);
    let done = admin.post(&path, &[REASON, ("open_id", "o1")]).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let told = lines(&till, "player.erase").await;
    let (pseudonym, note) = told.first().unwrap();
    assert!(told.len() == 1 && note == "case 4711" && pseudonym.starts_with("erased-"), "{told:?}");
    let shown = content(&done);
    assert!(shown.contains(&format!("{pseudonym} stands in place of the open_id")), "{shown}");
    assert!(shown.contains("wallet 1"), "{shown}");
    assert_eq!(admin.get(PLAYER).await.status, 404);
    assert_eq!(admin.post(&path, &[REASON, ("open_id", "o1")]).await.status, 404);
    let page = content(&admin.get(&format!("/console/apps/a1/players/{pseudonym}")).await);
    assert!(page.contains("This player was erased by admin-"), "{page}");
    till.assert_audit_clean().await;
}
