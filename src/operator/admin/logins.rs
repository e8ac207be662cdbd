//! Logins of players: operators issue the codes.

use domain::ids::{OpenId, UnionId};
use domain::operation::app::IssuedLoginCode;
use serde_json::json;

use super::apps::command;
use super::describe::{MOMENT, answers};
use super::routes::routes;
use crate::openapi::{APP_ID, Field, JS_CODE, OPEN_ID, UNION_ID};

routes! { "Players":
    /// Issue a login code
    ///
    /// Makes a code with which the app's server logs this player in. It works once, for five minutes. Your
    /// own login calls this, and gives the code to the game. Its use registers the player.
    POST "/apps/{app_id}/login-codes", "issueLoginCode", Once(Develop): command[IssueLoginCode] -> IssuedLoginCode =>
        answers("issued", "The code. It is shown once.", json!({
            "app_id": APP_ID, "js_code": JS_CODE, "expires_at": MOMENT,
        }))
        .members([
            Field::required::<OpenId>("open_id", OPEN_ID, "The player, known or not."),
            Field::optional::<UnionId>("union_id", "The person across apps. The login answers it.").example(UNION_ID),
        ])
        .wrong("open_id", "expected 1 to 64 of 0-9A-Za-z_-, got \"o.1\"");
}
