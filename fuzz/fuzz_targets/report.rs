//! The JSON of an order report and its field parsers: never a panic, and an identifier that was
//! accepted is accepted again as it reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use minitill::domain::fields::Fields;
use minitill::domain::ids::{ImgId, OpenId, OrderNo, PagePath, PoiId, ProductCity, ProductId, WebUrl};
use minitill::domain::order::{OrderStatus, parse_catalog_code};

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = Fields::from_json(data) else { return };
    for name in ["out_biz_order_no", "out_order_no"] {
        if let Ok(number) = fields.required(name, OrderNo::parse) {
            assert!(OrderNo::parse(number.as_str()).is_ok());
        }
    }
    let _ = fields.required("open_id", OpenId::parse);
    let _ = fields.required("order_status", OrderStatus::parse);
    let _ = fields.required("order_path", PagePath::parse);
    let _ = fields.required("product_cover_img_id", ImgId::parse);
    let _ = fields.optional("order_backup_url", WebUrl::parse);
    let _ = fields.optional("poi_id", PoiId::parse);
    let _ = fields.optional("product_id", ProductId::parse);
    let _ = fields.optional("product_catalog_code", parse_catalog_code);
    let _ = fields.optional("product_city", ProductCity::parse);
});
