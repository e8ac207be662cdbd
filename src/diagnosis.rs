//! Diagnosis of wrong signatures: which well-known mistake explains one (contract 3.7.5, operators' contract 8.6.48).
//!
//! A search for the mistake computes dozens of signatures and asks the database for keys of other apps. Whoever knows the
//! token of a sandbox app can ask for it without end. So it runs in threads that answer no payments, and apps take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::app::App;
use domain::caller::{SignatureFinding, examine_signature};
use domain::ids::AppId;
use domain::wallet::WalletForm;
use store::{Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Diagnoses of an app that begin within a second. A person tries less often, and so does a test that reads the answers.
pub const PER_SECOND_MAX: usize = 5;
/// The largest form that is diagnosed: names and values, in bytes. The longest form of a real exchange has half as many.
pub const FORM_BYTES_MAX: usize = 8 * 1024;
/// Diagnoses at the same time, of all apps. Each takes a core for milliseconds, and payments need the other.
const AT_ONCE: usize = 1;
const SECOND: Duration = Duration::from_secs(1);
/// Above this many apps, those without a diagnosis in the last second are forgotten.
const APPS_MAX: usize = 1024;

/// The diagnoses of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Diagnoses {
    apps: Arc<Mutex<HashMap<AppId, Turns>>>,
    places: Arc<Semaphore>,
}

/// The turns of an app.
#[derive(Debug, Default)]
struct Turns {
    is_under_way: bool,
    /// When the last ones began, oldest first.
    begun: VecDeque<Duration>,
}

impl Turns {
    fn forget_before(&mut self, now: Duration) {
        self.begun.retain(|begun| *begun + SECOND > now);
    }
}

/// A turn of an app. It ends when this is dropped.
#[derive(Debug)]
struct DiagnosisTurn {
    apps: Arc<Mutex<HashMap<AppId, Turns>>>,
    app_id: AppId,
    _place: OwnedSemaphorePermit,
}

impl Drop for DiagnosisTurn {
    fn drop(&mut self) {
        let mut apps = self.apps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = apps.get_mut(&self.app_id) {
            turns.is_under_way = false;
        }
    }
}

/// The keys that a diagnosis tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysTried {
    /// Those of the app.
    Own,
    /// Those of the newest other apps too. That one fits tells of another app.
    OfOthersToo,
}

/// Why there is no diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDiagnosis {
    /// The form is larger than [`FORM_BYTES_MAX`].
    FormTooLarge,
    /// Another one is under way, or the app had [`PER_SECOND_MAX`] within a second.
    Busy,
}

impl Default for Diagnoses {
    fn default() -> Self {
        Self { apps: Arc::default(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Diagnoses {
    /// The finding about a signature that no live key of the app made, with the mistake that explains it, where one does.
    /// It goes on when its caller stops waiting, so that a client who hangs up gets no further turn. `now` is monotonic.
    ///
    /// # Errors
    /// The database is away.
    pub async fn make(
        &self,
        store: &Store,
        app: Arc<App>,
        form: WalletForm,
        keys: KeysTried,
        now: Duration,
    ) -> store::Result<Result<SignatureFinding, NoDiagnosis>> {
        let bytes: usize = form.fields.texts().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > FORM_BYTES_MAX {
            return Ok(Err(NoDiagnosis::FormTooLarge));
        }
        let Some(turn) = self.turn(&app.id, now) else { return Ok(Err(NoDiagnosis::Busy)) };
        let store = store.clone();
        let ended =
            |fault: tokio::task::JoinError| StoreError::Internal(format!("a diagnosis ended: {fault}"));
        let making = tokio::spawn(async move {
            let _turn = turn;
            let searching = tokio::task::spawn_blocking(move || {
                let mut finding = examine_signature(&app, &form);
                finding.find_mistake(&app, &form);
                finding
            });
            let finding = searching.await.map_err(ended)?;
            match keys {
                KeysTried::Own => Ok(finding),
                KeysTried::OfOthersToo => store.try_keys_of_others(finding).await,
            }
        });
        making.await.map_err(ended)?.map(Ok)
    }

    /// A turn, if the app may have one now.
    fn turn(&self, app_id: &AppId, now: Duration) -> Option<DiagnosisTurn> {
        let mut apps = self.apps.lock().unwrap_or_else(PoisonError::into_inner);
        if apps.len() >= APPS_MAX && !apps.contains_key(app_id) {
            apps.retain(|_, turns| {
                turns.forget_before(now);
                turns.is_under_way || !turns.begun.is_empty()
            });
        }
        let turns = apps.entry(app_id.clone()).or_default();
        turns.forget_before(now);
        if turns.is_under_way || turns.begun.len() >= PER_SECOND_MAX {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        turns.is_under_way = true;
        turns.begun.push_back(now);
        drop(apps);
        Some(DiagnosisTurn { apps: Arc::clone(&self.apps), app_id: app_id.clone(), _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(id: &str) -> AppId {
        AppId::parse(id).unwrap()
    }

    #[test]
    fn an_app_has_one_diagnosis_at_a_time_and_five_a_second() {
        let (diagnoses, now) = (Diagnoses::default(), Duration::from_secs(100));
        let first = diagnoses.turn(&app("a1"), now);
        assert!(first.is_some());
        assert!(diagnoses.turn(&app("a1"), now).is_none(), "one is under way");
        assert!(diagnoses.turn(&app("a2"), now).is_none(), "there is one place for all apps");
        drop(first);
        for _ in 1..PER_SECOND_MAX {
            assert!(diagnoses.turn(&app("a1"), now).is_some());
        }
        assert!(diagnoses.turn(&app("a1"), now + Duration::from_millis(999)).is_none());
        assert!(diagnoses.turn(&app("a2"), now).is_some(), "the limit is one of each app");
        assert!(diagnoses.turn(&app("a1"), now + SECOND).is_some());
    }

    #[test]
    fn apps_that_ask_no_more_are_forgotten() {
        let (diagnoses, now) = (Diagnoses::default(), Duration::from_secs(100));
        for number in 0..3 * APPS_MAX {
            let later = now + SECOND * u32::try_from(number / APPS_MAX).unwrap();
            assert!(diagnoses.turn(&app(&format!("a{number}")), later).is_some());
        }
        assert!(diagnoses.apps.lock().unwrap().len() <= APPS_MAX);
    }
}
