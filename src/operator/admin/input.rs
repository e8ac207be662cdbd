//! The body of a write: one JSON object whose every member is known. A typo in an optional field would
//! otherwise be a change that nobody asked for.

use std::fmt;

use domain::fields::{Expected, shown};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use super::problem::{Kind, Problem};

/// Most elements of a list.
pub(super) const LIST_ITEMS_MAX: usize = 1000;

/// The members of a body, in order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Input(Vec<(String, Value)>);

impl Input {
    /// Reads a body. None at all is no member.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Problem> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let mut input: Self = serde_json::from_slice(body).map_err(|error| {
            Problem::new(Kind::BadRequest, format!("body: expected one JSON object: {error}"))
        })?;
        input.0.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(input)
    }

    /// The content in one form, whatever the order and spacing it came in.
    pub(super) fn canonical(&self) -> String {
        self.0.iter().cloned().collect::<Value>().to_string()
    }

    /// Refuses every member that is not one of these.
    pub(super) fn only(&self, known: &[&str]) -> Result<&Self, Problem> {
        let strange = self.0.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        let told = if known.is_empty() {
            "no field is expected here".to_owned()
        } else {
            format!("unknown field, expected {}", known.join(", "))
        };
        let errors: Vec<_> = strange.map(|(name, _)| (plain(name), told.clone())).collect();
        if errors.is_empty() { Ok(self) } else { Err(Problem::invalid(errors)) }
    }

    /// A member; `null` is as absent.
    fn get(&self, name: &str) -> Option<&Value> {
        let member = self.0.iter().find(|(known, _)| known == name);
        member.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// A text, parsed.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|value| text(name, value, parse)).transpose()
    }

    /// A text that must be there, parsed.
    pub(super) fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Expected>,
    ) -> Result<T, Problem> {
        self.optional(name, parse)?.ok_or_else(|| missing(name))
    }

    /// An integer within limits.
    pub(super) fn integer(&self, name: &str, min: i64, max: i64) -> Result<Option<i64>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_i64().filter(|number| (min..=max).contains(number));
        number.map(Some).ok_or_else(|| wrong(name, &format!("an integer from {min} to {max}"), value))
    }

    /// Yes or no.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| wrong(name, "true or false", value))
    }

    /// A list of at most 1,000 texts, each parsed.
    pub(super) fn list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, Problem> {
        self.list_from(0, name, parse)
    }

    /// The same of a list that must be there, and hold something.
    pub(super) fn required_list<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Vec<T>, Problem> {
        self.list_from(1, name, parse)?.ok_or_else(|| missing(name))
    }

    fn list_from<T>(
        &self,
        min: usize,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Option<Vec<T>>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let items = value.as_array().filter(|items| (min..=LIST_ITEMS_MAX).contains(&items.len()));
        let items =
            items.ok_or_else(|| wrong(name, &format!("a list of {min} to {LIST_ITEMS_MAX} texts"), value))?;
        let place = |index: usize| format!("{name}[{index}]");
        let parsed = items.iter().enumerate().map(|(index, item)| text(&place(index), item, &parse));
        parsed.collect::<Result<_, _>>().map(Some)
    }
}

fn missing(name: &str) -> Problem {
    Problem::field(name, "is missing")
}

fn text<T>(name: &str, value: &Value, parse: impl FnOnce(&str) -> Result<T, Expected>) -> Result<T, Problem> {
    // What the parser expects is known to it alone: a value of another type is asked as text that none takes.
    let parsed = parse(value.as_str().unwrap_or("\0"));
    parsed.map_err(|Expected(expected)| wrong(name, &expected, value))
}

fn wrong(name: &str, expected: &str, value: &Value) -> Problem {
    let got = match value {
        Value::String(text) => shown(text),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    // A token is a secret.
    let got = if name == "access_token" { String::new() } else { format!(", got {got}") };
    Problem::field(name, format!("expected {expected}{got}"))
}

/// A name that a stranger made up, as an answer repeats it.
fn plain(name: &str) -> String {
    shown(name).replace('"', "")
}

impl<'de> serde::Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Input;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Input, A::Error> {
                let mut members: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("{} is given twice", plain(&name))));
                    }
                    if members.len() == 64 {
                        return Err(A::Error::custom("more than 64 members"));
                    }
                    members.push((name, value));
                }
                Ok(Input(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{AppId, PoiId};

    fn input(text: &str) -> Input {
        Input::parse(text.as_bytes()).unwrap()
    }

    fn told(problem: Problem) -> Vec<(String, String)> {
        problem.errors
    }

    #[test]
    fn a_body_is_one_object_with_each_member_once() {
        assert_eq!(input(" "), Input::default());
        for bad in
            ["[]", "1", "{", "{\"a\":1}x", "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "\u{feff}{}"]
        {
            assert_eq!(Input::parse(bad.as_bytes()).unwrap_err().kind, Kind::BadRequest, "{bad}");
        }
        assert_eq!(Input::parse(b"{\"a\":\"\xff\"}").unwrap_err().kind, Kind::BadRequest);
    }

    #[test]
    fn an_unknown_member_is_refused_by_its_name() {
        let body = input(r#"{"free":1,"fre":2,"re\nf":3}"#);
        let told = told(body.only(&["free", "ref"]).unwrap_err());
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fre", "re\\nf"]);
        assert_eq!(told[0].1, "unknown field, expected free, ref");
    }

    #[test]
    fn a_member_is_of_its_type_and_nothing_is_converted() {
        let body = input(r#"{"n":"5","f":5.0,"b":1,"big":9223372036854775808,"null":null,"l":[1],"id":7}"#);
        for name in ["n", "f", "big"] {
            assert_eq!(told(body.integer(name, 0, i64::MAX).unwrap_err())[0].0, name);
        }
        assert_eq!(body.integer("null", 0, 9).unwrap(), None);
        assert!(body.flag("b").is_err());
        assert_eq!(told(body.list("l", PoiId::parse).unwrap_err())[0].0, "l[0]");
        assert_eq!(
            told(body.required("id", AppId::parse).unwrap_err())[0].1,
            "expected 1 to 64 of 0-9A-Za-z_-, got 7"
        );
        assert_eq!(told(body.required("none", AppId::parse).unwrap_err())[0].1, "is missing");
    }

    #[test]
    fn the_same_content_is_the_same_whatever_its_order_and_spacing() {
        let one = input(r#"{"a":1,"b":{"y":1,"x":[2]}}"#).canonical();
        assert_eq!(one, input(" { \"b\" : {\"x\":[2] ,\"y\":1}, \"a\":1 }").canonical());
        assert_ne!(one, input(r#"{"a":1,"b":{"y":1,"x":[3]}}"#).canonical());
        assert_ne!(input(r#"{"a":"1"}"#).canonical(), input(r#"{"a":1}"#).canonical());
        assert_ne!(input(r#"{"a":1}"#).canonical(), input(r#"{"a":1,"b":null}"#).canonical());
    }
}
