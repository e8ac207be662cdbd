//! `minitill master-key ...` replaces the master key, which encrypts pay keys, app secrets and other secrets.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Subcommand;
use serde_json::json;
use store::Store;
use store::secrets::{Keyring, MasterKey, keep_only, put_in_front, random_master_key};

use super::Context;

#[derive(Debug, Subcommand)]
pub(super) enum MasterKeyCommand {
    /// Show the ids of the key that encrypts and of the loaded keys, and whether a rotation is unfinished
    Show,
    /// Encrypt every pay key and app secret with a new key; if interrupted, run it again
    Rotate {
        /// File with the new key, 64 hexadecimal digits [default: create a key in the key file]
        #[arg(long, value_name = "FILE")]
        new_key_file: Option<PathBuf>,
    },
    /// Remove former keys from the key file, when nothing needs them any more
    Forget,
}

pub(super) async fn run(context: &Context, store: &Store, command: MasterKeyCommand) -> Result<()> {
    let keyring = store.keyring()?;
    match command {
        MasterKeyCommand::Show => show(context, store, &keyring).await,
        MasterKeyCommand::Rotate { new_key_file } => {
            rotate(context, store, &keyring, new_key_file.as_deref()).await
        }
        MasterKeyCommand::Forget => forget(context, store, &keyring).await,
    }
}

async fn show(context: &Context, store: &Store, keyring: &Keyring) -> Result<()> {
    let state = store.master_key_state().await?;
    let at_hand: Vec<&str> = keyring.keys().iter().map(MasterKey::id).collect();
    context.output.show(&json!({
        "encrypts": state.encrypts, "at_hand": at_hand, "unfinished": state.unfinished,
        "source": origin(keyring),
    }))
}

/// The source of the keys: their file, or the setting.
pub(super) fn origin(keyring: &Keyring) -> String {
    keyring.file().map_or_else(|| "secrets.master_key".to_owned(), |file| file.display().to_string())
}

async fn rotate(
    context: &Context,
    store: &Store,
    keyring: &Keyring,
    new_key_file: Option<&Path>,
) -> Result<()> {
    let state = store.master_key_state().await?;
    let keyring = with_new_key(keyring, new_key_file, &state.encrypts, state.unfinished)?;
    store.unlock(&keyring).await?;
    let secrets = store.rotate_master_key(&context.operator).await?;
    let key = keyring.first().id();
    let next = if keyring.file().is_some() {
        "When every server has the new key, run `minitill master-key forget` to remove the former key from the file."
    } else {
        "Now remove the former key from MINITILL_SECRETS__MASTER_KEY everywhere, and restart the servers."
    };
    context.output.print(
        &json!({ "encrypts": key, "secrets": secrets }),
        format!("The key {key} encrypts now. {secrets} secrets were encrypted again.\n{next}"),
    )
}

/// The loaded keys with the new key first. The key file has the new key before anything is encrypted with
/// it.
fn with_new_key(
    keyring: &Keyring,
    new_key_file: Option<&Path>,
    encrypts: &str,
    unfinished: bool,
) -> Result<Keyring> {
    let given = new_key_file.map(read_new_key).transpose()?;
    let is_done = keyring.first().id() == encrypts && !unfinished;
    let Some(file) = keyring.file() else {
        // The keys are in a setting: the operator has put the new key first.
        let is_first =
            |key: String| Keyring::parse(&key, "").is_ok_and(|new| new.first().id() == keyring.first().id());
        ensure!(
            given.map_or(!is_done, is_first),
            "secrets.master_key: expected the new key before the key that encrypts, as NEW,FORMER; \
             every server must have both keys first"
        );
        return Ok(keyring.clone());
    };
    if given.is_none() && is_done && keyring.keys().len() > 1 {
        // It is unknown which of them comes next: on another machine the order can be different.
        bail!(
            "{} has keys that encrypt nothing; name the new key with --new-key-file, \
             or remove former keys with `minitill master-key forget`",
            file.display()
        );
    }
    // If the first key does not encrypt everything yet, an earlier run was interrupted.
    let in_front = given.or_else(|| is_done.then(random_master_key));
    if let Some(key) = in_front {
        put_in_front(file, &key)?;
    }
    Keyring::read(file)?.context("the file of the master key is missing")
}

fn read_new_key(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let keyring = Keyring::parse(&text, &file.display().to_string())?;
    ensure!(keyring.keys().len() == 1, "{}: expected one key", file.display());
    Ok(text.trim().to_owned())
}

async fn forget(context: &Context, store: &Store, keyring: &Keyring) -> Result<()> {
    let state = store.master_key_state().await?;
    ensure!(!state.unfinished, "a rotation is unfinished; run `minitill master-key rotate` first");
    let file = keyring
        .file()
        .context("the keys are in the setting secrets.master_key; remove the former key there")?;
    keep_only(file, &state.encrypts)?;
    let forgotten = keyring.keys().len() - 1;
    context.output.print(
        &json!({ "encrypts": state.encrypts, "forgotten": forgotten }),
        format!("{} has only the key {} now. Removed keys: {forgotten}.", file.display(), state.encrypts),
    )
}
