//! The values of all examples in the documents of both APIs. Tests send them.

/// App id of all examples.
pub const APP_ID: &str = "demo";
/// Player of all examples.
pub const OPEN_ID: &str = "player-1";
/// What stands for a person in all examples.
pub const UNION_ID: &str = "person-1";
/// Login code of all examples. It is not valid.
pub const JS_CODE: &str = "5b0f7a1c93d24e6880f1a2b3c4d5e6f75b0f7a1c93d24e6880f1a2b3c4d5e6f7";
/// Access token of all examples. It is not valid.
pub const ACCESS_TOKEN: &str = "440db387e44d0ba1c4b1f4e2b2b6b3f7d3f9fd1d9d7dbe1b2f8e1f0c9a5b7c3d";
/// Pay key of all examples.
pub const PAY_KEY: &str = "B7Y0c6E5bCKMEQOsvCExziNhq16ObGqh";
/// The moment of all examples, in milliseconds.
pub const NOW_MILLIS: i64 = 1_800_000_000_000;
/// The same, as the `ts` of a form.
pub const TS: &str = "1800000000000";
/// Image of all examples.
pub const IMG_ID: &str = "3485da3dd58eb2ab68d81857411d8c4a7c0577a3785b0685";
/// Order number of the examples.
pub const BIZ_NO: &str = "20270115080000001";
/// Number of the exchange that the example of a cancel gives back.
pub const PAY_BIZ_NO: &str = "20270115070000001";
/// Product of the examples of top-ups.
pub const PRICED: &str = "gems60";
/// Order that payments and operators name in the examples.
pub const NAMED_BIZ_NO: &str = "order1001";
/// Payment of the examples, as its provider names it.
pub const PROVIDER_ORDER_ID: &str = "pi_3OrtQ2";
/// Time of the examples, where it is a text.
pub const MOMENT: &str = "2026-11-21T08:00:00Z";
/// An address that belongs to nobody.
pub const USER_IP: &str = "203.0.113.7";
