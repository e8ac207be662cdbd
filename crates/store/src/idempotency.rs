//! Idempotency records of the admin API (contract 8.7.3). The transaction of a change also writes
//! the answer under its idempotency key. So a second attempt cannot commit, and a repeat gets the
//! first answer.

use domain::idempotency::IdempotentRequest;
use serde_json::Value;
use sqlx::PgConnection;

use crate::error::{Result, StoreError};
use crate::removal::remove_piece;
use crate::secrets::Cipher;
use crate::store::Store;

/// How long a repeat gets the first answer.
const ANSWERS_KEPT_HOURS: i32 = 24;

/// The idempotency record of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EarlierAnswer {
    /// There is no record: the request has not taken effect.
    None,
    /// The request has taken effect and got this answer.
    Answered {
        /// The body.
        body: Value,
        /// True when another attempt than this one made the change.
        by_another_attempt: bool,
    },
    /// The caller has used the idempotency key for another request.
    OtherContent,
}

impl Store {
    /// The idempotency record of a request.
    pub async fn earlier_answer(&self, request: &IdempotentRequest) -> Result<EarlierAnswer> {
        let row = sqlx::query!(
            "SELECT content_sha256, attempt, answer FROM api_requests WHERE api_key = $1 AND idempotency_key = $2",
            request.api_key.as_str(),
            request.idempotency_key.as_str()
        );
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(EarlierAnswer::None) };
        if row.content_sha256 != request.content {
            return Ok(EarlierAnswer::OtherContent);
        }
        let text = Cipher::new(&request.answer_key).open(&context(request), &row.answer);
        let body = text.and_then(|text| serde_json::from_str(&text).ok());
        let body = body.ok_or_else(|| StoreError::damaged("api_requests.answer"))?;
        Ok(EarlierAnswer::Answered { body, by_another_attempt: row.attempt != request.attempt })
    }

    /// Stores the answer of a request that has changed nothing, unless another attempt has stored
    /// one.
    pub async fn store_answer_without_change(
        &self,
        request: &IdempotentRequest,
        answer: &Value,
    ) -> Result<()> {
        let mut connection = self.pool.acquire().await?;
        match store_answer(&mut connection, request, answer).await {
            Ok(()) | Err(StoreError::Repeated) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes a piece of the records that are older than a day.
    pub async fn forget_old_requests(&self) -> Result<u64> {
        Ok(remove_piece!(
            self,
            "api_requests",
            "created_at < now() - make_interval(hours => $2)",
            ANSWERS_KEPT_HOURS
        ))
    }
}

/// Stores the answer. It waits for another attempt of the same request. When that commits, this one
/// fails.
pub(super) async fn store_answer(
    connection: &mut PgConnection,
    request: &IdempotentRequest,
    answer: &Value,
) -> Result<()> {
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

/// The associated data of the encryption: an answer opens only in its own row.
fn context(request: &IdempotentRequest) -> String {
    format!("api_requests {} {}", request.api_key, request.idempotency_key)
}
