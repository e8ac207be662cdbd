//! The file or variable of a setting.

use std::path::PathBuf;

use crate::config::Config;

/// A file of settings that goes with the test.
struct OwnSettings(PathBuf);

impl OwnSettings {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("minitill-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// The settings, or the refusal with FILE for the file.
    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, String> {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let shown = self.0.display().to_string();
        Config::load(Some(&self.0), owned).map_err(|error| error.to_string().replace(&shown, "FILE"))
    }
}

impl Drop for OwnSettings {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Contract 9.2.1: an editor may save a file in another coding.
#[test]
fn a_file_that_is_no_utf_8_is_named() {
    for (bytes, named) in [
        (&b"\xff\xfe[\0l\0o\0g\0]\0"[..], "it is text in UTF-16: save it in UTF-8"),
        (b"\x1f\x8b\x08\0", "it is gzip data: save it as text in UTF-8"),
        (b"#\xe9\n", "stream did not contain valid UTF-8"),
    ] {
        let settings = OwnSettings::new("coding", "");
        std::fs::write(&settings.0, bytes).unwrap();
        let refused = settings.load(&[]).unwrap_err();
        assert_eq!(refused, format!("cannot read the settings file FILE: {named}"));
    }
}

/// Contract 9.2.11.
#[test]
fn an_empty_variable_takes_no_database_away() {
    let with_url = OwnSettings::new("with-url", "[database]\nurl = \"postgres://till@db/till\"\n");
    let without_url = OwnSettings::new("without-url", "[log]\nformat = \"json\"\n");
    let (common, own) = ("DATABASE_URL", "MINITILL_DATABASE__URL");
    for variable in [common, own] {
        let refused = with_url.load(&[(variable, "")]).unwrap_err();
        let expected = format!(
            "database.url (variable {variable}) is empty, but the settings file has a URL: remove one of them"
        );
        assert_eq!(refused, expected);
        assert_eq!(without_url.load(&[(variable, "")]).unwrap().database.url.get(), None);
    }
    let config = without_url.load(&[(own, ""), (common, "postgres://a@db/a")]).unwrap();
    assert_eq!(config.database.url.get(), None, "this variable wins");
    let config = with_url.load(&[(common, ""), (own, "postgres://b@db/b")]).unwrap();
    assert_eq!(config.database.url.get(), Some("postgres://b@db/b"), "this variable wins");
}

/// Contract 9.2.12.
#[test]
fn a_value_that_does_not_fit_is_told_with_where_it_stands() {
    let settings = OwnSettings::new("misfit", "[http]\nbody_timeout = \"abc\"\n");
    let expected =
        "expected a duration such as \"5s\" or \"48h\", got \"abc\" in `http.body_timeout` (file FILE)";
    assert_eq!(settings.load(&[]).unwrap_err(), expected);
    let refused = settings.load(&[("MINITILL_HTTP__BODY_TIMEOUT", "def")]).unwrap_err();
    assert!(refused.ends_with(" in `http.body_timeout` (variable MINITILL_HTTP__BODY_TIMEOUT)"), "{refused}");
}
