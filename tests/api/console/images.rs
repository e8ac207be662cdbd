//! Images in the console.

use domain::console_user::Role;

use crate::support::console::{ESCAPED, HOSTILE};
use crate::support::{PICTURE, Request, TestTill};

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_found_and_its_picture_served_to_the_signed_in_alone() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let img_id = till.image(&app).await;
    let viewer = till.browser(Role::Viewer).await;
    for path in [
        "/console/images".to_owned(),
        format!("/console/images?picture={img_id}"),
        "/console/images?app_id=a1&state=not_blocked&from=2020-01-01".to_owned(),
    ] {
        let page = viewer.get(&path).await;
        assert!(
            page.status == 200 && page.body.contains(&format!("/console/images/{img_id}/picture?w=240")),
            "{path}"
        );
    }
    for path in
        ["/console/images?state=blocked", "/console/images?app_id=a2", "/console/images?to=2020-01-01"]
    {
        assert!(!viewer.get(path).await.body.contains(img_id.as_str()), "{path}");
    }
    let page = viewer.get(&format!("/console/images/{img_id}")).await.body;
    for fact in [
        "png, 128 × 128 pixels",
        "database",
        "Images with the same content</h2>\n<p class=\"muted\">None.</p>",
    ] {
        assert!(page.contains(fact), "{fact}");
    }
    let small = format!("/console/images/{img_id}/picture?w=120");
    let picture = viewer.get(&small).await;
    assert_eq!((picture.status, picture.header("x-content-type-options")), (200, Some("nosniff")));
    let inspected = pictures::inspect(&picture.bytes).unwrap();
    assert_eq!((inspected.side, picture.header("content-type")), (120, Some(inspected.format.media_type())));
    let whole = viewer.get(&format!("/console/images/{img_id}/picture?w=480")).await;
    assert_eq!(pictures::inspect(&whole.bytes).unwrap().side, 128, "never larger than it is");
    assert_eq!(Request::get(&small).send(till.operator_address).await.status, 303);
    for (path, status) in [
        (format!("/console/images/{img_id}/picture?w=121"), 400),
        (format!("/console/images/{img_id}/picture"), 400),
        (format!("/console/images/{}/picture?w=120", "0".repeat(48)), 404),
        (format!("/console/images/{}", "0".repeat(48)), 404),
        ("/console/images/x".to_owned(), 404),
        ("/console/images?picture=x".to_owned(), 400),
    ] {
        assert_eq!(viewer.get(&path).await.status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_picture_is_seen_by_an_admin_who_asks_for_it_and_by_nobody_else() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    let img_id = till.image(&app).await;
    let (admin, viewer) = (till.browser(Role::Admin).await, till.browser(Role::Viewer).await);
    let page = format!("/console/images/{img_id}");
    let (block, unblock) = (format!("{page}/block"), format!("{page}/unblock"));
    assert_eq!(viewer.post(&block, &[("reason", "gore")]).await.status, 403);
    assert!(admin.get(&block).await.body.contains("1 with the same content"));
    assert_eq!(admin.post(&block, &[("reason", "")]).await.status, 400);
    assert!(!till.store.image(&img_id).await.unwrap().unwrap().is_blocked);
    // Rule: a browser keeps no picture, or it would show one that is blocked meanwhile.
    let before = viewer.get(&format!("{page}/picture?w=120")).await;
    assert_eq!((before.status, before.header("cache-control")), (200, Some("no-store")));

    let blocked = admin.post(&block, &[("reason", HOSTILE)]).await;
    assert_eq!(blocked.status, 303, "{}", blocked.body);
    assert!(till.store.image(&img_id).await.unwrap().unwrap().is_blocked);
    let shown = admin.get(blocked.header("location").unwrap()).await.body;
    assert!(
        shown.contains("The picture is blocked") && shown.contains(ESCAPED) && !shown.contains("<img src=x")
    );
    assert!(!viewer.get(&page).await.body.contains("reveal"));

    let small = format!("{page}/picture?w=120");
    for (visitor, path, is_seen) in [
        (&viewer, small.clone(), false),
        (&viewer, format!("{small}&reveal=yes"), false),
        (&admin, small.clone(), false),
        (&admin, format!("{small}&reveal=yes"), true),
    ] {
        let picture = visitor.get(&path).await;
        assert_eq!(picture.header("cache-control"), Some("no-store"));
        assert_eq!(pictures::inspect(&picture.bytes).is_ok(), is_seen, "{path}");
    }
    // Near copies are told before, and blocked with it: the same picture of another app, uploaded later, is refused.
    let kept = pictures::keep(PICTURE).unwrap();
    let other = till.app("a2").await;
    assert_eq!(
        till.store.keep_image(&other.id, kept, till.till.config.limits.image_quotas()).await.unwrap(),
        store::KeepOutcome::Blocked
    );

    assert_eq!(viewer.post(&unblock, &[("reason", "r")]).await.status, 403);
    assert!(admin.get(&unblock).await.body.contains(ESCAPED));
    assert_eq!(admin.post(&unblock, &[("reason", "a mistake")]).await.status, 303);
    assert!(!till.store.image(&img_id).await.unwrap().unwrap().is_blocked);
    assert_eq!(admin.post(&unblock, &[("reason", "again")]).await.status, 303, "twice is once");
}
