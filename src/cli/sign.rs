//! `minitill sign` signs a request as a game server does, and shows the signed string.

use anyhow::Result;
use clap::Args;
use domain::fields::Fields;
use domain::signature::{PayKey, canonical_string};
use serde::Serialize;

use super::Context;

/// Fields that are never signed (contract 3.1).
const NOT_SIGNED: [&str; 2] = ["access_token", "sign"];

#[derive(Debug, Args)]
pub(super) struct SignArguments {
    /// Pay key of the app
    #[arg(long)]
    key: String,
    /// All fields as a form body, percent-encoded
    #[arg(long, conflicts_with = "fields", required_unless_present = "fields")]
    form: Option<String>,
    /// One field, not encoded; repeat it for each field
    #[arg(value_name = "FIELD=VALUE", value_parser = parse_field)]
    fields: Vec<(String, String)>,
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected field=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(context: &Context, arguments: &SignArguments) -> Result<()> {
    let mut fields = match &arguments.form {
        Some(form) => Fields::from_urlencoded(form.as_bytes())?,
        None => Fields::default(),
    };
    // The command line has either a form or fields.
    for (name, value) in &arguments.fields {
        fields.add_text(name.clone(), value.clone())?;
    }
    context.output.show(&sign(&PayKey::new(arguments.key.clone()), &fields))
}

/// A signed request.
#[derive(Serialize)]
pub(super) struct Signed {
    /// Form-encoded, with `sign`.
    pub(super) body: String,
    sign: String,
    string_to_sign: String,
}

/// Signs all fields except those that are never signed.
pub(super) fn sign(key: &PayKey, fields: &Fields) -> Signed {
    let signed = fields.texts().filter(|(name, _)| !NOT_SIGNED.contains(name));
    let string_to_sign = canonical_string(signed);
    let sign = key.sign(&string_to_sign);
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields.texts().filter(|(name, _)| *name != "sign"))
        .append_pair("sign", &sign)
        .finish();
    Signed { body, sign, string_to_sign }
}
