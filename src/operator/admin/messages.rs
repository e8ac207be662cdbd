//! The problems that handlers meet and the API's document shows, each once: the function that makes it, and
//! its example.

use std::fmt::Display;

use axum::http::{HeaderValue, header};
use domain::ids::IdempotencyKey;
use domain::operation::{account, app, image, key, player, receiver, topup, unknown_app, user, wallet};

use super::document::EXAMPLE_IDEMPOTENCY_KEY;
use super::exchanges::BIZ_NO;
use super::operators::{KEY, USER};
use super::orders::ORDER_NO;
use super::problem::{Problem, ProblemKind};
use super::receivers::{EVENT_ID, RECEIVER_ID};
use super::topups::{PAYMENT, REFUND};
use crate::openapi::{APP_ID, IMG_ID, OPEN_ID, refusals};

refusals! { Problem:
    /// There is no such app.
    no_app(app_id = APP_ID) => unknown_app(app_id).into();
    /// There is an app with this id.
    app_taken(app_id = "mygame") => app::app_taken(app_id).into();
    /// The app has exchanges, so it cannot become a sandbox.
    no_longer_sandbox(app_id = APP_ID) => app::no_longer_sandbox(app_id).into();
    /// A receiver of the platform format has no secret of its own.
    no_own_secret() => receiver::no_own_secret().into();
    /// The app has no such token.
    no_token(app_id = APP_ID) => app::unknown_token(app_id).into();
    /// The app knows no such player.
    no_player(app_id = APP_ID, open_id = OPEN_ID) => wallet::unknown_player(app_id, open_id).into();
    /// The app has sold nothing under it.
    no_exchange(app_id = APP_ID, biz_no = BIZ_NO) => wallet::unknown_exchange(app_id, biz_no).into();
    /// Nobody has reported this order.
    no_order(app_id = APP_ID, number = ORDER_NO) =>
        Problem::none(format_args!("no order {number} of an app {app_id}"));
    /// The purses do not cover it. The text tells what is there.
    not_covered(free = 40, charge = 100) => wallet::not_covered(free, charge).into();
    /// Less is left of the exchange. The text tells how much.
    more_than_left(remaining = 60) => wallet::more_than_left(remaining).into();
    /// The ref stands for another change.
    ref_used(reference = "order-4711") => wallet::ref_used(reference).into();
    /// A purse cannot hold that much.
    balance_too_large() => wallet::balance_too_large().into();
    /// The app has no such payment.
    no_payment(app_id = APP_ID, payment = PAYMENT) => topup::unknown_payment(app_id, payment).into();
    /// The payment was told of with other content. The text names the first field that differs.
    payment_differs(payment = PAYMENT, field = "biz_no") => topup::payment_differs(payment, field).into();
    /// The payment is not unmatched any more.
    payment_not_open(payment = PAYMENT, state = "paid") => topup::payment_not_open(payment, state).into();
    /// Another payment has paid the order.
    order_is_paid(biz_no = BIZ_NO) => topup::order_is_paid(biz_no).into();
    /// Nothing was credited for the payment.
    payment_not_credited(payment = PAYMENT, state = "unmatched") => topup::payment_not_credited(payment, state).into();
    /// The app takes no callbacks of this provider.
    no_provider(app_id = APP_ID, provider = "pay") => topup::unknown_provider(app_id, provider).into();
    /// The app has as many payment providers as it may have.
    too_many_providers() => topup::too_many_providers().into();
    /// The refund was told of with another amount.
    refund_differs(refund = REFUND) => topup::refund_differs(refund).into();
    /// The refunds would exceed the payment. The text tells what is left of it.
    refund_exceeds(payment = PAYMENT, left = 0) => topup::refund_exceeds(payment, left).into();
    /// The player has spent the coins. The text tells what is owed and what is there.
    coins_are_spent(charge = 30, free = 3, charge_held = 20, free_held = 46) =>
        topup::coins_are_spent(charge, free, charge_held, free_held).into();
    /// There is no such image.
    no_image(img_id = IMG_ID) => image::unknown_image(img_id).into();
    /// The image is not blocked.
    no_block(img_id = IMG_ID) => image::not_blocked(img_id).into();
    /// The app has no such receiver.
    no_receiver(receiver_id = RECEIVER_ID, app_id = APP_ID) => receiver::unknown_receiver(app_id, receiver_id).into();
    /// The path has no name of a provider.
    no_provider_name() => Problem::none("no such provider: expected 1 to 32 of 0-9a-z_- in the path");
    /// The path has no month.
    no_month() => Problem::none("no such month: expected a month such as 2026-10 in the path");
    /// The app has as many receivers as it may have.
    too_many_receivers() => receiver::too_many_receivers().into();
    /// The receiver has no such event, or it was removed.
    no_event(event_id = EVENT_ID) => receiver::unknown_event(event_id).into();
    /// Events after the cursor were removed. What is missing stands in the ledger.
    cursor_too_old() => conflict("after: events after this cursor were removed, because they are older than notify.keep");
    /// The cursor is of another database, or of this one before it was restored.
    cursor_unknown() =>
        conflict("after: no event is at this cursor; it is of another database, or of this one before a restore");
    /// No API key came.
    key_missing() => unauthorized("expected one header Authorization: Bearer mtk_...", "");
    /// There is no such API key.
    key_unknown() => unauthorized("there is no such API key", ", error=\"invalid_token\"");
    /// The API key was revoked.
    key_revoked() => unauthorized("the API key was revoked", ", error=\"invalid_token\"");
    /// The role of the API key does not allow this call.
    not_for_role(name = "dashboard", role = "viewer") =>
        Problem::new(ProblemKind::Forbidden, format!("the API key {name} has the role {role}, which may not make this call"));
    /// The API key is for some apps, and this call is about all of them.
    all_apps_only(name = "of-one-app") =>
        Problem::new(ProblemKind::Forbidden, format!("the API key {name} is for some apps, and this call is about all apps"));
    /// There is no such user.
    no_user(name = USER) => user::unknown_user(name).into();
    /// There is no such key.
    no_key(name = KEY) => key::unknown_key(name).into();
    /// Nothing is recorded of such a player.
    nothing_recorded(app_id = APP_ID, open_id = OPEN_ID) => player::nothing_recorded(app_id, open_id).into();
    /// It needs a second person. Ask for it in the console.
    needs_two_people() => account::account_needs_second_person().into();
    /// The role support gives back no more of an exchange. The text tells how much.
    above_limit(max = 10) => wallet::above_limit(max).into();
    /// It needs a second person (`console.second_person_above`). Ask for it in the console.
    needs_second(max = 10) => wallet::needs_second_person(max).into();
    /// It needs a second person (`console.second_person_above`). The command line carries it out.
    needs_command_line(max = 10) => wallet::needs_command_line(max).into();
    /// The body is of another type.
    not_json() => Problem::new(ProblemKind::UnsupportedMediaType, "content-type: expected application/json");
    /// The body is of another type.
    not_csv() => Problem::new(ProblemKind::UnsupportedMediaType, "content-type: expected text/csv");
    /// There is no idempotency key, or it is not valid.
    idempotency_key_missing() => Problem::new(
        ProblemKind::BadRequest,
        format!(
            "expected one header Idempotency-Key of {}: a fresh one for each write, the same for its repeats",
            IdempotencyKey::EXPECTED
        ),
    );
    /// The idempotency key was used for another request within a day.
    idempotency_key_reused(key = EXAMPLE_IDEMPOTENCY_KEY) => Problem::new(
        ProblemKind::IdempotencyKeyReused,
        format!("the idempotency key {key} was used for another request within a day"),
    );
}

fn conflict(detail: impl Display) -> Problem {
    Problem::new(ProblemKind::Conflict, detail.to_string())
}

fn unauthorized(detail: &str, error: &str) -> Problem {
    let challenge = HeaderValue::from_str(&format!("Bearer realm=\"minitill admin\"{error}"));
    let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer"));
    Problem::new(ProblemKind::Unauthorized, detail).with_header(header::WWW_AUTHENTICATE, challenge)
}
