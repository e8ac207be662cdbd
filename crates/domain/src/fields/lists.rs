//! Fields that are lists or objects: each of their values is read as a field is.

use super::{Expected, FieldError, FieldErrorKind, FieldValue, Fields, LIST_ITEMS_MAX, Typing, shown_plain};
use crate::text;

impl Fields {
    /// A list of at most [`LIST_ITEMS_MAX`] texts, each parsed. In a form they are lines.
    ///
    /// # Errors
    /// A value of a wrong type, or one that `parse` refuses.
    pub fn list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        self.list_from(0, name, parse)
    }

    /// The same of a list that is required and holds something.
    ///
    /// # Errors
    /// As [`Fields::list`], and a list that is absent or empty.
    pub fn required_list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Vec<T>, FieldError> {
        self.list_from(1, name, parse)?.ok_or_else(|| self.absent(name))
    }

    fn list_from<T>(
        &self,
        min: usize,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        let expected = Expected(text!("a list of {min} to {max} texts", min, max = LIST_ITEMS_MAX));
        let items = match (self.typing, self.get(name)) {
            (Typing::Form, value) => return lines(min, name, value, parse),
            (_, None | Some(FieldValue::Null)) => return Ok(None),
            (_, Some(FieldValue::List(items))) if (min..=LIST_ITEMS_MAX).contains(&items.len()) => items,
            (_, Some(value)) => return Err(FieldError::wrong_type(name, expected, value)),
        };
        let parsed = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.parse(&format!("{name}[{index}]"), item, |text| parse(text)));
        parsed.collect::<Result<_, _>>().map(Some)
    }

    /// A required list of 1 to `max` objects, each read by `read`. An object with other members than `known` is refused.
    ///
    /// # Errors
    /// A value of a wrong type, another number of objects, or what `read` refuses. The error names the object.
    pub fn required_objects<T>(
        &self,
        name: &str,
        max: usize,
        known: &[&str],
        read: impl Fn(&Self) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FieldError> {
        let expected = Expected(text!("a list of 1 to {max} objects", max));
        let items = match self.get(name) {
            Some(FieldValue::List(items)) if (1..=max).contains(&items.len()) => items,
            None | Some(FieldValue::Null) => return Err(self.absent(name)),
            Some(value) => return Err(FieldError::wrong_type(name, expected, value)),
        };
        let read_one = |(index, item): (usize, &FieldValue)| {
            self.read_object(&format!("{name}[{index}]"), item, |fields| {
                fields.only(known).map_err(|mut errors| errors.swap_remove(0))?;
                read(fields)
            })
        };
        items.iter().enumerate().map(read_one).collect()
    }

    /// A required object, read by `read`. It may have more members than are read.
    ///
    /// # Errors
    /// Absent, a value of a wrong type, or what `read` refuses. The error names the object and its member.
    pub fn required_object<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        match self.get(name) {
            None | Some(FieldValue::Null) => Err(self.absent(name)),
            Some(FieldValue::Text(text)) if self.typing == Typing::Loose && text.is_empty() => {
                Err(self.absent(name))
            }
            Some(value) => self.read_object(name, value, read),
        }
    }

    /// Reads the members of the object at `place`, as strictly as the fields beside it.
    fn read_object<T>(
        &self,
        place: &str,
        value: &FieldValue,
        read: impl FnOnce(&Self) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        let members = match value {
            FieldValue::Object(members) => members,
            FieldValue::Broken(fault) => {
                let problem = FieldErrorKind::Refused(fault.text());
                return Err(FieldError { field: place.to_owned(), problem });
            }
            other => return Err(FieldError::wrong_type(place, Expected::new("an object"), other)),
        };
        let of_object = |error: FieldError| FieldError { field: format!("{place}.{}", error.field), ..error };
        let mut fields = Self { typing: self.typing, ..Self::default() };
        for (name, value) in members {
            if *value == FieldValue::NotUtf8 {
                let problem = FieldErrorKind::Malformed { expected: text!("UTF-8 text"), got: None };
                return Err(of_object(FieldError { field: shown_plain(name), problem }));
            }
            let twice = || FieldError::malformed(name, "each name once", name);
            fields.push(name.clone(), value.clone()).map_err(|_| of_object(twice()))?;
        }
        read(&fields).map_err(of_object)
    }
}

/// One or more values in the lines of a field of a form.
fn lines<T>(
    min: usize,
    name: &str,
    value: Option<&FieldValue>,
    parse: impl Fn(&str) -> Result<T, Expected>,
) -> Result<Option<Vec<T>>, FieldError> {
    let Some(FieldValue::Text(text)) = value else { return Ok(None) };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !(min..=LIST_ITEMS_MAX).contains(&lines.len()) {
        let expected = text!("{min} to {max} lines", min, max = LIST_ITEMS_MAX);
        let got = Some(text!("\"{count} lines\"", count = lines.len()));
        return Err(FieldError {
            field: name.to_owned(),
            problem: FieldErrorKind::Malformed { expected, got },
        });
    }
    let parsed = lines.into_iter().map(|line| {
        let on_each = |Expected(expected)| {
            FieldError::malformed(name, text!("{expected} on each line", expected), line)
        };
        parse(line).map_err(on_each)
    });
    parsed.collect::<Result<_, _>>().map(Some)
}
