//! HTTP of both listeners: reading bodies, who sent a request, its id, answers in JSON, the refusal of a request and
//! its texts, rate limits, places of operators, and the log of refusals. Requests to other servers share `outgoing`.

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
