//! A form with a file: its fields come first, so whoever may not send it is refused before the file is read.

use std::fs::File;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use domain::fields::{FieldError, FieldErrorKind, Fields};
use domain::text;
use domain::text::Text;
use guarded_fetch::bulkhead::Permit;
use multer::{Constraints, Error, Field, Multipart, SizeLimit};

use super::error::ConsoleError;
use super::request::{Arrival, ConsoleRequest, FORM_BYTES_MAX, read_fields};
use crate::http::body::{TooSlow, announced_bytes, refuse_coding_as_type, too_large, too_slow_for_pace};
use crate::http::multipart::{self, PartHead};
use crate::operator::reconcile_upload::{FILE_BYTES_MAX, NotKept, at_a_pace, keep, no_room};
use crate::state::AppState;

/// The field of the file. It is the last of its form.
pub(super) const FILE: &str = "file";

/// A form of a user's session with a file.
pub(super) struct Upload {
    /// The request with the fields before the file.
    pub(super) request: ConsoleRequest,
    /// The file on its way; `None` where the form has none.
    pub(super) file: Option<FilePart>,
}

/// A file on its way.
pub(super) struct FilePart {
    field: Field<'static>,
    is_too_large: bool,
    time: Duration,
}

impl Upload {
    async fn receive(request: Request, state: &AppState) -> Result<Self, ConsoleError> {
        refuse_coding_as_type(&request)?;
        let arrival = Arrival::of(&request, state)?;
        let Ok(boundary) = multipart::boundary(request.headers()) else {
            let fields = read_fields(state, request, FORM_BYTES_MAX).await?;
            return Ok(Self { request: arrival.request(fields)?, file: None });
        };
        let (body, time) = (request.into_body(), state.config.http.body_timeout);
        let announced = announced_bytes(&body);
        let is_too_large = announced.is_some_and(|bytes| bytes > FILE_BYTES_MAX + FORM_BYTES_MAX);
        let all = SizeLimit::new().whole_stream((FILE_BYTES_MAX + FORM_BYTES_MAX) as u64);
        let mut parts = Multipart::with_constraints(
            at_a_pace(body, announced, time),
            boundary,
            Constraints::new().size_limit(all),
        );
        let (mut fields, mut room) = (Fields::from_form(b"")?, FORM_BYTES_MAX);
        while let Some(mut part) = parts.next_field().await.map_err(|error| unreadable(&error, time))? {
            let name = PartHead::of(part.headers()).name.unwrap_or_default();
            if name == FILE {
                let file = Some(FilePart { field: part, is_too_large, time });
                return Ok(Self { request: arrival.request(fields)?, file });
            }
            let mut value = Vec::new();
            while let Some(piece) = part.chunk().await.map_err(|error| unreadable(&error, time))? {
                room = room.checked_sub(piece.len()).ok_or_else(|| too_large(FORM_BYTES_MAX))?;
                value.extend_from_slice(&piece);
            }
            let value = String::from_utf8(value)
                .map_err(|_| ConsoleError::bad_request(text!("{name}: expected UTF-8 text.", name)))?;
            fields.add_text(name, value)?;
        }
        Ok(Self { request: arrival.request(fields)?, file: None })
    }
}

impl FromRequest<AppState> for Upload {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        Self::receive(request, state).await.map_err(IntoResponse::into_response)
    }
}

impl FilePart {
    /// Keeps the file while this permit is not asked back, or tells what is wrong with its field.
    pub(super) async fn keep(self, permit: &mut Permit) -> Result<Result<File, FieldError>, ConsoleError> {
        let Self { field, is_too_large, time } = self;
        let larger = || wrong(text!("a file of at most {max} MiB", max = FILE_BYTES_MAX / (1024 * 1024)));
        if is_too_large {
            return Ok(Err(larger()));
        }
        match keep(permit, Box::pin(field)).await {
            // A browser sends an empty file where none was chosen.
            Ok(file) if file.metadata().is_ok_and(|of| of.len() == 0) => Ok(Err(missing())),
            Ok(file) => Ok(Ok(file)),
            Err(NotKept::TooLarge | NotKept::Broken(Error::StreamSizeExceeded { .. })) => Ok(Err(larger())),
            Err(NotKept::AskedBack) => Err(ConsoleError::COMPARING),
            Err(NotKept::Broken(error)) => Err(unreadable(&error, time)),
            Err(error @ NotKept::Disk(_)) => Err(no_room(error.to_string()).into()),
        }
    }
}

/// No file was chosen.
pub(super) fn missing() -> FieldError {
    wrong("a file with the names of its columns in the first line".into())
}

/// What is wrong with the file, in words that follow "expected".
pub(super) fn wrong(expected: Text) -> FieldError {
    FieldError { field: FILE.to_owned(), problem: FieldErrorKind::Malformed { expected, got: None } }
}

fn unreadable(error: &Error, time: Duration) -> ConsoleError {
    if let Error::StreamReadFailed(cause) = error
        && cause.is::<TooSlow>()
    {
        return too_slow_for_pace(time).into();
    }
    match error {
        Error::StreamSizeExceeded { .. } => too_large(FILE_BYTES_MAX + FORM_BYTES_MAX).into(),
        _ => ConsoleError::bad_request("The form did not come whole."),
    }
}
