//! Reports of an app (contract 13).

pub(super) mod statement;
