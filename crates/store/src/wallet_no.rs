//! Numbers of new wallets.

use crate::secrets::random_bytes;

/// The number of a new wallet: 63 random bits. If another wallet of the app has it, the key refuses it. With
/// a billion wallets the chance of that is 1 in 10 billion.
pub(super) fn random_wallet_no() -> i64 {
    i64::from_be_bytes(random_bytes()) & i64::MAX
}
