//! HTTP of both listeners: bodies, who sent a request, its id, and answers in JSON. The refusal of a request and its
//! texts, rate limits, places of operators, and the log of refusals are here too. Requests to other servers share
//! `outgoing`.

pub mod body;
pub(crate) mod client_address;
pub(crate) mod json;
pub mod language;
pub mod multipart;
pub mod operator_places;
pub(crate) mod outgoing;
pub mod rate_limit;
pub mod refusal;
pub mod refusal_log;
pub mod request_id;
pub mod request_log;
pub mod wrong_signatures;
