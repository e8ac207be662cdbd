//! A form with a file, and one with a list, which is smaller. The fields come before the file, so whoever may not send
//! it is refused before the file is read.

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

/// The field of a list that is typed.
pub(super) const LIST: &str = "list";
/// The largest list, in bytes.
const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    limits: FormLimits,
}

/// What is told of a form that is more.
#[derive(Clone, Copy)]
struct FormLimits {
    bytes: usize,
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
        let limits = FormLimits { bytes: FILE_BYTES_MAX + FORM_BYTES_MAX, time };
        let announced = announced_bytes(&body);
        let is_too_large = announced.is_some_and(|bytes| bytes > limits.bytes);
        let all = SizeLimit::new().whole_stream(limits.bytes as u64);
        let mut parts = Multipart::with_constraints(
            at_a_pace(body, announced, time),
            boundary,
            Constraints::new().size_limit(all),
        );
        let (mut fields, mut room) = (Fields::from_form(b"")?, FORM_BYTES_MAX);
        while let Some(part) = parts.next_field().await.map_err(|error| unreadable(&error, limits))? {
            let name = PartHead::of(part.headers()).name.unwrap_or_default();
            if name == FILE {
                let file = Some(FilePart { field: part, is_too_large, limits });
                return Ok(Self { request: arrival.request(fields)?, file });
            }
            let value = read_part(part, &mut room, limits).await?.map_err(|_| too_large(FORM_BYTES_MAX))?;
            fields.add_text(name.clone(), utf8(&name, value)?)?;
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

/// A form of a user's session with a list: as a text in the field `list`, or as a file.
pub(super) struct ListUpload {
    /// The request with its fields, the text among them.
    pub(super) request: ConsoleRequest,
    /// The list, or what is wrong with its field.
    pub(super) list: Result<Vec<u8>, FieldError>,
}

impl ListUpload {
    async fn receive(request: Request, state: &AppState) -> Result<Self, ConsoleError> {
        refuse_coding_as_type(&request)?;
        let arrival = Arrival::of(&request, state)?;
        let (mut fields, mut file) = (Fields::from_form(b"")?, Ok(Vec::new()));
        let mut is_too_long = None;
        if let Ok(boundary) = multipart::boundary(request.headers()) {
            let (body, time) = (request.into_body(), state.config.http.body_timeout);
            let limits = FormLimits { bytes: LIST_BYTES_MAX, time };
            let announced = announced_bytes(&body);
            // A part that is too long is read to its end, and not kept: so its line can be named.
            let all = SizeLimit::new().whole_stream((4 * LIST_BYTES_MAX) as u64);
            let constraints = Constraints::new().size_limit(all);
            let mut parts =
                Multipart::with_constraints(at_a_pace(body, announced, time), boundary, constraints);
            let mut room = FORM_BYTES_MAX;
            while let Some(part) = parts.next_field().await.map_err(|error| unreadable(&error, limits))? {
                let name = PartHead::of(part.headers()).name.unwrap_or_default();
                let mut list_room = LIST_BYTES_MAX;
                match name.as_str() {
                    FILE => file = read_part(part, &mut list_room, limits).await?,
                    LIST => match read_part(part, &mut list_room, limits).await? {
                        Ok(value) => fields.add_text(name.clone(), utf8(&name, value)?)?,
                        Err(line) => is_too_long = Some(line),
                    },
                    _ => {
                        let value = read_part(part, &mut room, limits).await?;
                        let value = value.map_err(|_| too_large(FORM_BYTES_MAX))?;
                        fields.add_text(name.clone(), utf8(&name, value)?)?;
                    }
                }
            }
        } else {
            fields = read_fields(state, request, LIST_BYTES_MAX).await?;
        }
        let request = arrival.request(fields)?;
        let typed = request.text(LIST).as_bytes().to_vec();
        let list = match (is_too_long, file) {
            (Some(line), _) => Err(too_long(LIST, line)),
            (None, Err(line)) => Err(too_long(FILE, line)),
            (None, Ok(file)) if file.is_empty() && typed.is_empty() => {
                let expected = "a list, typed here or as a file".into();
                Err(FieldError {
                    field: LIST.to_owned(),
                    problem: FieldErrorKind::Malformed { expected, got: None },
                })
            }
            (None, Ok(file)) if file.is_empty() => Ok(typed),
            (None, Ok(file)) if typed.is_empty() => Ok(file),
            (None, Ok(_)) => Err(wrong("no file beside the list that was typed".into())),
        };
        Ok(Self { request, list })
    }
}

impl FromRequest<AppState> for ListUpload {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        Self::receive(request, state).await.map_err(IntoResponse::into_response)
    }
}

/// What is wrong with a list that is larger than it may be: its line in which the limit is.
fn too_long(field: &str, line: u64) -> FieldError {
    let max = LIST_BYTES_MAX / (1024 * 1024);
    let expected = text!("at most {max} MiB, which end in line {line}", max, line);
    FieldError { field: field.to_owned(), problem: FieldErrorKind::Malformed { expected, got: None } }
}

/// The data of a part, which takes its bytes from `room`. What is above is read to its end, and the line is given in
/// which the room ended.
async fn read_part(
    mut part: Field<'static>,
    room: &mut usize,
    limits: FormLimits,
) -> Result<Result<Vec<u8>, u64>, ConsoleError> {
    let (mut value, mut above) = (Vec::new(), None);
    while let Some(piece) = part.chunk().await.map_err(|error| unreadable(&error, limits))? {
        match room.checked_sub(piece.len()) {
            Some(left) if above.is_none() => {
                *room = left;
                value.extend_from_slice(&piece);
            }
            _ => {
                above.get_or_insert_with(|| {
                    let lines = value.iter().chain(&piece[..*room]).filter(|byte| **byte == b'\n').count();
                    value = Vec::new();
                    lines as u64 + 1
                });
            }
        }
    }
    Ok(above.map_or(Ok(value), Err))
}

fn utf8(name: &str, value: Vec<u8>) -> Result<String, ConsoleError> {
    String::from_utf8(value)
        .map_err(|_| ConsoleError::bad_request(text!("{name}: expected UTF-8 text.", name)))
}

impl FilePart {
    /// Keeps the file while this permit is not asked back, or tells what is wrong with its field.
    pub(super) async fn keep(self, permit: &mut Permit) -> Result<Result<File, FieldError>, ConsoleError> {
        let Self { field, is_too_large, limits } = self;
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
            Err(NotKept::Broken(error)) => Err(unreadable(&error, limits)),
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

fn unreadable(error: &Error, limits: FormLimits) -> ConsoleError {
    if let Error::StreamReadFailed(cause) = error
        && cause.is::<TooSlow>()
    {
        return too_slow_for_pace(limits.time).into();
    }
    match error {
        Error::StreamSizeExceeded { .. } => too_large(limits.bytes).into(),
        _ => ConsoleError::bad_request("The form did not come whole."),
    }
}
