//! Absent fields: why one has no value, and where it came after all. That may be another place, another name, or the
//! value of another field.

use super::{FieldError, FieldErrorKind, FieldValue, Fields, Misplacement};

/// A field that has another name at another endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenamedField {
    /// The name that it has in [`Fields`].
    name: &'static str,
    /// The name that it has in the request.
    sent: &'static str,
    /// The name of the other endpoint.
    other: &'static str,
    /// Whether that one came.
    has_other: bool,
}

impl Fields {
    /// Takes each of these names that has no value here from `others`, where it came. What came in its stead comes along,
    /// so that [`Fields::absent`] can tell it.
    pub fn complete(&mut self, names: &[&str], others: &Self) {
        for name in names.iter().filter(|name| self.text(name).is_none()).collect::<Vec<_>>() {
            let instead = || others.mistaken_for(name).map(|(came, _)| came);
            let came = if others.get(name).is_some() { Some(*name) } else { instead() };
            if let Some((came, value)) = came.and_then(|came| Some((came, others.get(came)?))) {
                self.values.retain(|(known, _)| known != came);
                self.values.push((came.to_owned(), value.clone()));
            }
        }
    }

    /// The same with other names: of each pair, what came under the second is read as the first. What came under the
    /// first itself is not read.
    #[must_use]
    pub fn renamed(mut self, names: &[(&'static str, &'static str)]) -> Self {
        for (name, sent) in names {
            let has_other = self.text(name).is_some();
            self.renamed.push(RenamedField { name, sent, other: name, has_other });
            self.values.retain(|(known, _)| known != name);
            let values = self.values.iter_mut().map(|(known, _)| known);
            let misplaced = self.misplaced.iter_mut().map(|(known, _)| known);
            for known in values.chain(misplaced).filter(|known| known == sent) {
                (*name).clone_into(known);
            }
        }
        self
    }

    /// Notes that the second name of each pair is that of another endpoint, so that [`Fields::absent`] can tell it.
    #[must_use]
    pub fn named_elsewhere(mut self, names: &[(&'static str, &'static str)]) -> Self {
        for (name, other) in names {
            let has_other = self.text(other).is_some();
            self.renamed.push(RenamedField { name, sent: name, other, has_other });
        }
        self
    }

    /// Notes what came in a place where it is not read, so that [`Fields::absent`] can tell it.
    #[must_use]
    pub fn beside(mut self, others: &Self, place: Misplacement) -> Self {
        let others = others.texts().filter(|(_, value)| !value.is_empty());
        self.misplaced.extend(others.map(|(name, _)| (name.to_owned(), place)));
        self
    }

    /// The first of these names that came in another place alone.
    #[must_use]
    pub fn misplaced(&self, mut names: impl Iterator<Item = &'static str>) -> Option<FieldError> {
        if self.misplaced.is_empty() {
            return None;
        }
        let is_misplaced = |error: &FieldError| matches!(error.problem, FieldErrorKind::Misplaced(_));
        names.find_map(|name| Some(self.absent(name)).filter(is_misplaced))
    }

    /// The first of these names that is absent and came after all, under another name or in the value of another field.
    #[must_use]
    pub fn mistaken(&self, names: impl Iterator<Item = &'static str>) -> Option<FieldError> {
        let mut absent = names.filter(|name| self.get(name).is_none());
        absent.find_map(|name| {
            let (_, problem) = self.mistaken_for(name)?;
            Some(FieldError { field: name.to_owned(), problem })
        })
    }

    /// Why a required field has no value: it is empty, came in another place, or is missing.
    #[must_use]
    pub fn absent(&self, name: &str) -> FieldError {
        let place = self.misplaced.iter().find(|(known, _)| known == name);
        let problem = match (self.get(name), place) {
            (Some(FieldValue::Text(_)), _) => FieldErrorKind::Empty,
            (None, Some((_, place))) => FieldErrorKind::Misplaced(*place),
            (_, _) => self.mistaken_for(name).map_or(FieldErrorKind::Missing, |(_, problem)| problem),
        };
        FieldError { field: name.to_owned(), problem }
    }

    /// How a field that is absent came after all. It came under a name that is nearly right, or in the value of another
    /// field, such as an object around it. Neither is a credential, because both are told.
    fn mistaken_for(&self, name: &str) -> Option<(&str, FieldErrorKind)> {
        let renamed = self.renamed.iter().find(|renamed| renamed.name == name);
        let sent = renamed.map_or(name, |renamed| renamed.sent);
        let wanted = bare(sent);
        let came = || self.texts().filter(|(came, _)| *came != name);
        let misspelt = |came: &str| FieldErrorKind::Misspelt { came: came.to_owned() };
        let nearly = came().find(|(came, _)| bare(came) == wanted);
        // A list or an object in pieces, as PHP and jQuery send it.
        let nearly = nearly.or_else(|| came().find(|(came, _)| is_in_pieces(came, &wanted)));
        let nearly = nearly.map(|(came, _)| (came, misspelt(came)));
        let swallowed_by = |by: &str, is_json| {
            let as_sent =
                self.renamed.iter().find(|renamed| renamed.name == by).map_or(by, |renamed| renamed.sent);
            FieldErrorKind::Swallowed { by: as_sent.to_owned(), is_json }
        };
        let swallowed = || {
            let (by, value) = came().find(|(_, value)| holds_pair(value, sent))?;
            Some((by, swallowed_by(by, value.trim_start().starts_with(['{', '[']))))
        };
        let enveloped = || {
            let holds = |value: &FieldValue| {
                let FieldValue::Unread(names) = value else { return false };
                names.iter().any(|name| name == sent)
            };
            let (by, _) = self.values.iter().find(|(_, value)| holds(value))?;
            Some((by.as_str(), swallowed_by(by, true)))
        };
        // The name is the whole form or JSON, so it holds credentials and is not told.
        let escaped = || {
            let is_in_json = |came: &str| came.trim_start().starts_with('{') && holds_pair(came, sent);
            came().find_map(|(came, _)| {
                if is_in_escaped_form(came, sent) {
                    Some((came, FieldErrorKind::EscapedWhole))
                } else {
                    is_in_json(came).then_some((came, FieldErrorKind::EscapedJson))
                }
            })
        };
        let elsewhere = || {
            let RenamedField { other, .. } = renamed.filter(|renamed| renamed.has_other)?;
            Some((*other, misspelt(other)))
        };
        nearly.or_else(swallowed).or_else(enveloped).or_else(escaped).or_else(elsewhere)
    }
}

/// Separators that were escaped for a page or for JSON, without the `&` that begins some of them.
const ESCAPED_SEPARATORS: [&str; 10] =
    ["amp;", "AMP;", "#0038;", "#038;", "#38;", "#x0026;", "#x26;", "#X26;", "\\u0026", "\\x26"];

/// Whether this name is that of a part of the field with these letters: `name[0][part]`, `name[0].part`.
pub(super) fn is_in_pieces(came: &str, wanted: &str) -> bool {
    came.split_once('[').is_some_and(|(root, _)| !root.contains('=') && bare(root) == wanted)
}

/// Whether a name is a form that was escaped as a whole, and this field is in it.
fn is_in_escaped_form(came: &str, name: &str) -> bool {
    came.split('&').any(|pair| pair.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
}

/// The letters and digits of a name, without what a separator left in front of it. Of `params[name]`, `name[]`, `name[0]` and
/// `params[name][]`, the name.
pub(super) fn bare(name: &str) -> String {
    let mut rest = ESCAPED_SEPARATORS.iter().fold(name, |name, escaped| name.trim_start_matches(escaped));
    let name = loop {
        match rest.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
            Some((outer, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => rest = outer,
            Some((_, inner)) => break inner,
            None => break rest,
        }
    };
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a value goes on with `name=`, behind a separator that is none.
pub(super) fn holds_pair(value: &str, name: &str) -> bool {
    value.match_indices(name).any(|(at, _)| {
        let before = &value[..at];
        let is_behind_separator = before
            .ends_with(|before: char| !before.is_ascii_alphanumeric() && before != '_')
            || ESCAPED_SEPARATORS.iter().any(|escaped| before.ends_with(escaped));
        let after = value[at + name.len()..].trim_start_matches(['"', '\'', '\\', ' ']);
        is_behind_separator && after.starts_with(['=', ':'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract 2.10.5: what came in place of a field, and how it is told.
    #[test]
    fn a_field_in_pieces_or_in_an_escaped_form_is_told() {
        let in_pieces = |came: &str| format!("product_info is missing; \"{came}\" came");
        for (query, field, text) in [
            (
                "product_info%5B0%5D%5Bproduct_id%5D=1",
                "product_info",
                in_pieces("product_info[0][product_id]"),
            ),
            ("product_info[0].product_id=1", "product_info", in_pieces("product_info[0].product_id")),
            ("productInfo[product_id]=1", "product_info", in_pieces("productInfo[product_id]")),
            ("params[app_id][]=a1", "app_id", r#"app_id is missing; "params[app_id][]" came"#.to_owned()),
            (
                "app_id%3Da1%26access_token%3Dt",
                "app_id",
                "app_id is missing; it came in a form that is escaped as a whole".to_owned(),
            ),
            (
                "app_id%3Da1%26access_token%3Dt&x=1",
                "access_token",
                "access_token is missing; it came in a form that is escaped as a whole".to_owned(),
            ),
            (
                "product_info%3D%5B%7B%7D%5D%26app_id%3Da1",
                "product_info",
                "product_info is missing; it came in a form that is escaped as a whole".to_owned(),
            ),
            (
                "%7B%22app_id%22%3A%22a1%22%2C%22access_token%22%3A%22t%22%7D",
                "access_token",
                "access_token is missing; it came in JSON that is escaped as a whole".to_owned(),
            ),
            ("%7B%22other_app_id%22%3A%22a1%22%7D", "app_id", "app_id is missing".to_owned()),
            ("other_app_id%3Da1", "app_id", "app_id is missing".to_owned()),
            ("info[0]=1", "product_info", "product_info is missing".to_owned()),
        ] {
            let fields = Fields::from_urlencoded(query.as_bytes()).unwrap();
            assert_eq!(*fields.absent(field).text().english(), *text, "{query}");
        }
    }

    /// Contract 2.10.5: an object around the fields is told, however deep it is, and not one that has other fields.
    #[test]
    fn a_field_in_an_object_around_it_is_told() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
        let body = format!(r#"{{"meta":{{"a":1}},"list":[{{"ts":1}}],"data":{{"b":{deep},"app_id":"a1"}}}}"#);
        let fields = Fields::from_json(body.as_bytes()).unwrap();
        let told = |name: &str| fields.absent(name).text().english();
        assert_eq!(told("app_id"), "app_id is missing; it came inside the JSON of data: send that as it is");
        assert_eq!(told("ts"), "ts is missing");
        let mut completed = Fields::default();
        completed.complete(&["app_id"], &fields);
        assert_eq!(completed.absent("app_id"), fields.absent("app_id"));
    }

    /// A name of many pieces costs no stack.
    #[test]
    fn a_name_may_have_many_indices() {
        assert_eq!(bare(&format!("app_id{}", "[0]".repeat(100_000))), "appid");
        assert_eq!(bare(&format!("params[app_id]{}", "[]".repeat(100_000))), "appid");
    }
}
