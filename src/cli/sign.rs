//! `minitill sign` signs a request as a game server does, and shows the signed string.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use clap::{ArgGroup, Args};
use domain::fields::Fields;
use domain::signature::{PayKey, SignedRequest};
use domain::strays::{around, mistaken};

use super::{Context, secret_text};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("signed").args(["form", "fields"]).required(true))]
pub(super) struct SignArguments {
    #[command(flatten)]
    key: KeyArgument,
    /// All fields as a form body, percent-encoded
    #[arg(long)]
    form: Option<String>,
    /// One field, not encoded; repeat it for each field
    #[arg(value_name = "FIELD=VALUE", value_parser = parse_field)]
    fields: Vec<(String, String)>,
}

/// The source of the pay key.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct KeyArgument {
    /// Pay key of the app; other users of this machine can see it while the command runs
    #[arg(long)]
    key: Option<String>,
    /// File that holds the pay key; `-` is standard input
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected field=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(context: &Context, arguments: &SignArguments) -> Result<()> {
    let (option, key) = match &arguments.key.key_file {
        Some(file) => ("--key-file", key_in(file)?),
        None => ("--key", arguments.key.key.clone().expect("the group demands one of the two")),
    };
    ensure!(!key.is_empty(), "{option}: the key is empty");
    // Whoever copied it with its surroundings would get another signature without a word.
    if let Some(strays) = around(&key) {
        return Err(anyhow!("{option}: the key has {} around it; use the key alone", strays.english()));
    }
    if let Some(mistaken) = mistaken(&key) {
        return Err(anyhow!("{option}: the key {}", mistaken.english()));
    }
    let mut fields = match &arguments.form {
        Some(form) => Fields::from_form_body(form.as_bytes()).map_err(|error| anyhow!("--form: {error}"))?,
        None => Fields::default(),
    };
    // The command line has either a form or fields.
    for (name, value) in &arguments.fields {
        fields.add_text(name.clone(), value.clone())?;
    }
    context.output.show(&SignedRequest::of(&PayKey::new(key), &fields))
}

/// The key in a file, without the end of its line.
fn key_in(file: &Path) -> Result<String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let text = bytes.map_err(anyhow::Error::from).and_then(secret_text);
    let text = text.map_err(|error| anyhow!("--key-file: cannot read {}: {error}", file.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
