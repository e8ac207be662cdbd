//! JUnit's XML, which build servers read: the cases of a check, and why some failed.

use std::fs::File;
use std::path::Path;

use anyhow::{Result, anyhow};

/// A case.
pub(super) struct Case<'a> {
    pub(super) name: &'a str,
    /// The finding, if it has failed.
    pub(super) failure: Option<&'a str>,
}

/// The file of `--junit`.
pub(super) fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| anyhow!("--junit: cannot write {}: {error}", path.display()))
}

/// The document of these cases of an app.
pub(super) fn document(app_id: &str, cases: &[Case<'_>]) -> String {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let counts = format!("tests=\"{}\" failures=\"{failures}\"", cases.len());
    let line = |case: &Case<'_>| {
        let head = format!("    <testcase classname=\"{}\" name=\"{}\"", escaped(app_id), escaped(case.name));
        match case.failure {
            None => format!("{head}/>\n"),
            Some(seen) => {
                format!("{head}>\n      <failure message=\"{}\"/>\n    </testcase>\n", escaped(seen))
            }
        }
    };
    let lines = cases.iter().map(line).collect::<Vec<_>>().concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"minitill sandbox check\" {counts}>\n\
         {lines}  </testsuite>\n</testsuites>\n"
    )
}

/// The text as an attribute has it. XML has no other control characters than these, not even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push(' '),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_each_case_and_escapes_what_was_seen() {
        let cases = [
            Case { name: "buys once", failure: None },
            Case { name: "ships", failure: Some("\"a\" <&>\u{0}\n") },
        ];
        assert_eq!(
            document("g1", &cases),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1">
  <testsuite name="minitill sandbox check" tests="2" failures="1">
    <testcase classname="g1" name="buys once"/>
    <testcase classname="g1" name="ships">
      <failure message="&quot;a&quot; &lt;&amp;&gt;? "/>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
    }
}
