//! Verifies the password of a user. Wrong ones are counted by user and address, and addresses take turns to
//! have theirs hashed.

use std::net::IpAddr;
use std::time::Duration;

use domain::console_user::{ConsoleUserName, NewPassword, PASSWORD_BYTES_MAX, PasswordHash};
use guarded_fetch::bulkhead::Permit;
use store::StoreError;
use store::secrets::{hash_password, password_fits, password_of_nobody};
use tokio::time::{Instant, sleep_until, timeout};

use super::error::ConsoleError;
use super::second_factor;
use crate::state::AppState;

/// How long a password waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a wrong password comes after a multiple of this time. It is longer than the comparison and
/// the write to the database, so the time does not show whether the name exists.
const FAILURE_TAKES: Duration = Duration::from_millis(300);

/// The stored hash, if the password fits it. `client` is the address that is counted. With `code` the second
/// factor must fit too. Result and time are the same for an unknown name, a wrong password, a wrong code and an
/// address that has to wait.
pub(super) async fn verify(
    state: &AppState,
    client: IpAddr,
    name: &ConsoleUserName,
    password: &str,
    code: Option<&str>,
) -> Result<Option<PasswordHash>, ConsoleError> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Ok(None);
    }
    // This comes before the attempt is counted: without a turn there is no attempt.
    let turn = turn(state, client).await?;
    let started = Instant::now();
    let attempt = state.store.attempt_sign_in(name, client).await?;
    let kept = attempt.as_ref().map_or_else(password_of_nobody, |attempt| attempt.password.clone());
    let (compared, password) = (kept.clone(), password.to_owned());
    // The turn ends with the comparison, which goes on if the client disconnects.
    let fits = tokio::task::spawn_blocking(move || {
        let fits = password_fits(&compared, &password);
        drop(turn);
        fits
    });
    let fits = fits.await.map_err(|fault| StoreError::Internal(format!("comparing a password: {fault}")))?;
    let fits = fits
        && match code {
            Some(code) => second_factor::fits(state, name, code).await?,
            None => true,
        };
    if fits {
        // Ten wrong ones in a row count, whatever asks for the password.
        state.store.forget_sign_in_attempts(name, client).await?;
        return Ok(Some(kept));
    }
    let user = name.as_str();
    if attempt.is_some_and(|attempt| attempt.is_last) {
        tracing::warn!(user, "console: after ten wrong passwords in a row the address waits for 15 minutes");
    } else {
        tracing::info!(user, "console: a wrong name, password or code");
    }
    sleep_until(started + answered_after(started.elapsed())).await;
    Ok(None)
}

/// When a failure is answered whose work took this long.
fn answered_after(work: Duration) -> Duration {
    let steps = work.as_millis() / FAILURE_TAKES.as_millis() + 1;
    FAILURE_TAKES * u32::try_from(steps).unwrap_or(u32::MAX)
}

/// The hash of a new password.
pub(super) async fn hash(
    state: &AppState,
    client: IpAddr,
    password: NewPassword,
) -> Result<PasswordHash, ConsoleError> {
    let turn = turn(state, client).await?;
    let hashed = tokio::task::spawn_blocking(move || {
        let hash = hash_password(&password);
        drop(turn);
        hash
    });
    let hashed =
        hashed.await.map_err(|fault| StoreError::Internal(format!("hashing a password: {fault}")))?;
    Ok(hashed?)
}

/// A turn of this address to hash a password.
async fn turn(state: &AppState, client: IpAddr) -> Result<Permit, ConsoleError> {
    let turn = timeout(TURN_PATIENCE, state.password_checks.acquire(&client.to_string(), 1)).await;
    turn.map_err(|_| ConsoleError::BUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: the time of an answer tells nothing of the work behind it, but for a multiple of 300 ms.
    #[test]
    fn a_failure_is_answered_at_the_next_multiple_of_its_time() {
        for (work, answered) in [(0, 300), (1, 300), (299, 300), (300, 600), (301, 600), (899, 900)] {
            let (work, answered) = (Duration::from_millis(work), Duration::from_millis(answered));
            assert_eq!(answered_after(work), answered, "{work:?}");
        }
    }
}
