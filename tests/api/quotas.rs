//! Quotas of what an app stores (contract 7.3), and of its live tokens (contract 6.4.1).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use domain::app::AppLimits;
use domain::operation::app::AppCommand;
use domain::quota::Quota;
use futures_util::future::join_all;

use crate::image::{png, upload};
use crate::support::{Answer, TestApp, TestTill};

/// A small picture of its own for each shade.
fn picture(shade: u8) -> Vec<u8> {
    png(8, |x, y| [shade, x.to_le_bytes()[0], y.to_le_bytes()[0]])
}

async fn send(till: &TestTill, app: &TestApp, shade: u8) -> Answer {
    till.send(upload(app, &picture(shade))).await
}

/// What the app stores, as the database counts it, and as its images are.
async fn assert_counted(till: &TestTill, app: &TestApp) {
    let differs = format!(
        "SELECT count(*) FROM image_usage u WHERE app_id = '{}' AND (bytes, images) IS DISTINCT FROM
         (SELECT (sum(byte_length)::bigint, count(*)) FROM images i WHERE i.app_id = u.app_id)",
        app.id
    );
    assert_eq!(till.number(&differs).await, 0);
}

/// Rule: contract 7.3.1 to 7.3.5, each quota by its exact answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_past_a_quota_is_refused_by_its_name_and_a_known_picture_is_not() {
    let till = TestTill::start().await;
    let quota = |number: i64| Some(Quota::parse(&number.to_string()).unwrap());
    // The first two pictures fit exactly.
    let room = i64::try_from(picture(1).len() + picture(2).len()).unwrap();
    let none = AppLimits::default;
    let cases = [
        (
            AppLimits { image_bytes_per_day: quota(room), ..none() },
            format!(
                "image_bytes_per_day: expected at most {room} bytes of new pictures a day (UTC) of this app; wait as Retry-After says"
            ),
        ),
        (
            AppLimits { image_bytes_max: quota(room), ..none() },
            format!("image_bytes_max: expected at most {room} bytes of pictures of this app; the operator can raise it"),
        ),
        (
            AppLimits { images_per_day: quota(2), ..none() },
            "images_per_day: expected at most 2 new pictures a day (UTC) of this app; wait as Retry-After says".to_owned(),
        ),
        (
            AppLimits { images_max: quota(2), ..none() },
            "images_max: expected at most 2 pictures of this app; the operator can raise it".to_owned(),
        ),
    ];
    for (number, (limits, text)) in cases.into_iter().enumerate() {
        let app = till.app(&format!("a{number}")).await;
        till.command(&app, AppCommand::Limit(limits.into())).await;
        let first = send(&till, &app, 1).await;
        assert_eq!((first.code(), send(&till, &app, 2).await.code()), (1, 1), "{text}");
        let refused = send(&till, &app, 3).await;
        refused.assert_refused(10_000_305, &text);
        let is_of_day = text.contains("per_day");
        let wait = refused.header("retry-after").map(|seconds| seconds.parse::<u32>().unwrap());
        assert_eq!(wait.is_some_and(|seconds| (1..=86_400).contains(&seconds)), is_of_day, "{text}");
        assert_eq!(send(&till, &app, 1).await.body, first.body, "a picture that the app has costs nothing");
        assert_counted(&till, &app).await;
        // Another day.
        till.execute(&format!("UPDATE image_usage SET day = day - 1 WHERE app_id = '{}'", app.id)).await;
        assert_eq!(send(&till, &app, 3).await.code(), if is_of_day { 1 } else { 10_000_305 }, "{text}");
        // Without its own quota the app has the server's.
        till.command(&app, AppCommand::Limit(none().into())).await;
        till.clock.advance(Duration::from_secs(5));
        assert_eq!(send(&till, &app, 4).await.code(), 1);
        assert_counted(&till, &app).await;
    }
}

/// Rule: uploads at once never share the rest of a quota, on one instance or on two.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_at_once_fill_a_quota_and_do_not_pass_it() {
    let till =
        Arc::new(TestTill::start_with(|config| config.limits.images_max = Quota::parse("3").unwrap()).await);
    let other = TestTill::start_on(till.database_url.clone(), |config| {
        config.limits.images_max = Quota::parse("3").unwrap();
    })
    .await;
    let app = till.app("a1").await;
    let uploads = (0..12).map(|shade| send(if shade % 2 == 0 { &till } else { &other }, &app, shade));
    let mut codes: Vec<_> = join_all(uploads).await.iter().map(Answer::code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [[1; 3].as_slice(), &[10_000_305; 9]].concat());
    assert_eq!(till.number("SELECT count(*) FROM images").await, 3);
    assert_eq!(till.number("SELECT count(DISTINCT content_sha256) FROM picture_parts").await, 3);
    assert_counted(&till, &app).await;
}

/// Rule: contract 6.4.1. The oldest live token goes; expired ones and those of other apps do not count.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_past_the_limit_ends_the_oldest_live_one() {
    let till = TestTill::start_with(|config| {
        config.limits.tokens_per_app = NonZeroU32::new(3).unwrap();
        config.database.connections = 8;
    })
    .await;
    let (app, other) = (till.app("a1").await, till.app("a2").await);
    till.execute("UPDATE access_tokens SET expires_at = now() - interval '1 hour' WHERE app_id = 'a1'").await;
    let live = "SELECT count(*) FROM access_tokens WHERE app_id = 'a1' AND expires_at > now()";
    let issue = || till.store.issue_token(&app.id, Duration::from_hours(1));
    let mut tokens = Vec::new();
    for _ in 0..4 {
        tokens.push(issue().await.unwrap().unwrap().0);
    }
    assert_eq!(till.number(live).await, 3);
    assert_eq!(till.number("SELECT count(*) FROM access_tokens").await, 5, "{:?}", other.id);
    let works = async |token: &str| {
        let app = TestApp { token: token.to_owned(), ..app.clone() };
        send(&till, &app, 1).await.code() == 1
    };
    assert_eq!(
        (works(&tokens[0]).await, works(&tokens[1]).await, works(&tokens[3]).await),
        (false, true, true)
    );
    // At once, too.
    for round in 0..5 {
        for issued in join_all((0..12).map(|_| issue())).await {
            assert!(issued.unwrap().is_some());
        }
        assert_eq!(till.number(live).await, 3, "round {round}");
    }
}
