//! The JSON of an order report and its field parsers: never a panic, and what was accepted keeps to
//! the limits of the contract.

#![no_main]

use libfuzzer_sys::fuzz_target;
use domain::fields::Fields;
use domain::ids::{ImgId, OpenId, OrderNo, PagePath, PoiId, ProductCity, ProductId, WebUrl};
use domain::order::{OrderStatus, parse_catalog_code};

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_json(data) else { return };
    let is_within =
        |text: &str, min: usize, max: usize| (min..=max).contains(&text.len()) && !text.contains('\0');
    for name in ["out_biz_order_no", "out_order_no"] {
        if let Ok(number) = fields.required(name, OrderNo::parse) {
            assert!(is_within(number.as_str(), 6, 32) && fields.text(name) == Some(number.as_str()));
        }
    }
    if let Ok(open_id) = fields.required("open_id", OpenId::parse) {
        assert!(is_within(open_id.as_str(), 1, 64));
    }
    if let Ok(status) = fields.required("order_status", OrderStatus::parse) {
        let code =
            fields.text("order_status").and_then(|text| text.parse::<i32>().ok()).expect("it was parsed");
        assert!(matches!(code, 1..=6 | 10..=15), "{status:?}");
    }
    if let Ok(path) = fields.required("order_path", PagePath::parse) {
        assert!(is_within(path.as_str(), 1, 1024) && !path.as_str().contains(['?', '#']));
    }
    if let Ok(img_id) = fields.required("product_cover_img_id", ImgId::parse) {
        assert!(is_within(img_id.as_str(), 48, 48));
    }
    if let Ok(Some(url)) = fields.optional("order_backup_url", WebUrl::parse) {
        assert!(is_within(url.as_str(), 1, 2048));
    }
    if let Ok(Some(poi_id)) = fields.optional("poi_id", PoiId::parse) {
        assert!(is_within(poi_id.as_str(), 1, 64));
    }
    if let Ok(Some(product_id)) = fields.optional("product_id", ProductId::parse) {
        assert!(is_within(product_id.as_str(), 1, 64));
    }
    if let Ok(Some(code)) = fields.optional("product_catalog_code", parse_catalog_code) {
        assert!(code > 0);
    }
    if let Ok(Some(city)) = fields.optional("product_city", ProductCity::parse) {
        assert!((1..=15).contains(&city.as_str().chars().count()));
    }
});
