//! Requests of the admin API that take effect once. The answer is written in the transaction that makes
//! the change, with a key that only one of them gets: a second try cannot commit, and whoever asks again
//! finds what the first was answered.

use domain::idempotency::IdempotentRequest;
use serde_json::Value;
use sqlx::PgConnection;

use super::{Store, StoreError};
use crate::secrets::Cipher;

/// How long a repeat is answered like the first.
const ANSWERS_KEPT_HOURS: i32 = 24;

/// What is known of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlierAnswer {
    /// Nothing: it has not taken effect.
    None,
    /// It has, and was answered so.
    Answered {
        /// The body.
        body: Value,
        /// Whether another try than this one made the change.
        by_another_try: bool,
    },
    /// The same caller has used its idempotency key for another request.
    OtherContent,
}

impl Store {
    /// What a request was answered, if it has taken effect.
    ///
    /// # Errors
    /// The database is away; the answer does not open.
    pub async fn earlier_answer(&self, request: &IdempotentRequest) -> Result<EarlierAnswer, StoreError> {
        let row = sqlx::query!(
            "SELECT content_sha256, attempt, answer FROM api_requests WHERE api_key = $1 AND idempotency_key = $2",
            request.api_key.as_str(),
            request.idempotency_key.as_str()
        )
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(EarlierAnswer::None) };
        if row.content_sha256 != request.content {
            return Ok(EarlierAnswer::OtherContent);
        }
        let text = Cipher::new(&request.answer_key).open(&context(request), &row.answer);
        let body = text.and_then(|text| serde_json::from_str(&text).ok());
        let body = body.ok_or_else(|| StoreError::damaged("api_requests.answer"))?;
        Ok(EarlierAnswer::Answered { body, by_another_try: row.attempt != request.attempt })
    }

    /// Keeps the answer of a request that has changed nothing, unless another try has kept one.
    ///
    /// # Errors
    /// The database is away.
    pub async fn keep_answer_of_no_change(
        &self,
        request: &IdempotentRequest,
        answer: &Value,
    ) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await?;
        match keep_answer(&mut connection, request, answer).await {
            Ok(()) | Err(StoreError::Repeated) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Forgets requests of more than a day ago.
    ///
    /// # Errors
    /// The database is away.
    pub async fn forget_old_requests(&self) -> Result<u64, StoreError> {
        let gone = sqlx::query!(
            "DELETE FROM api_requests WHERE created_at < now() - make_interval(hours => $1)",
            ANSWERS_KEPT_HOURS
        )
        .execute(&self.pool)
        .await?;
        Ok(gone.rows_affected())
    }
}

/// Writes the answer. Another try that is under way is waited for; when it commits, this one must not.
pub(super) async fn keep_answer(
    connection: &mut PgConnection,
    request: &IdempotentRequest,
    answer: &Value,
) -> Result<(), StoreError> {
    let sealed = Cipher::new(&request.answer_key).seal(&context(request), &answer.to_string());
    let kept = sqlx::query!(
        "INSERT INTO api_requests (api_key, idempotency_key, content_sha256, attempt, answer)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        request.api_key.as_str(),
        request.idempotency_key.as_str(),
        request.content.as_slice(),
        request.attempt.as_slice(),
        sealed
    )
    .execute(connection)
    .await?;
    if kept.rows_affected() == 1 { Ok(()) } else { Err(StoreError::Repeated) }
}

/// An answer opens in its own row only.
fn context(request: &IdempotentRequest) -> String {
    format!("api_requests {} {}", request.api_key, request.idempotency_key)
}
