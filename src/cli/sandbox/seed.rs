//! The seed of a sandbox server (contract 18.1): what is there after its start, as TOML.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::app::{AppSettings, Category, Scope};
use domain::event::EventType;
use domain::ids::{
    AppId, AppName, CreditRef, ImgId, OpenId, OrderNo, PackageVersion, PagePath, PoiId, WebUrl,
};
use domain::language::Language;
use domain::operation::app::AppCommand;
use domain::operation::receiver::NewReceiver;
use domain::operation::topup::SetPrices;
use domain::operation::wallet::Credit;
use domain::period::TimeZone;
use domain::receiver::ReceiverFormat;
use domain::topup::{Currency, FIGURE_MAX, PRICES_MAX, Price, PriceName, PricedProductId};
use serde::{Deserialize, Deserializer, de};
use serde_json::Map;
use store::{CreditsSource, FixedSecrets, KeepOutcome, Store};

use super::super::{Context, app, not_done};
use crate::config::{file_fault, read_text};
use crate::operator::DEMO_PICTURE;

/// The seed that `minitill sandbox seed` prints.
pub(super) const DEFAULT: &str = include_str!("../../../config/sandbox.toml");
/// What an app secret, a pay key or an access token has at most.
const SECRET_BYTES_MAX: usize = 256;
/// What the secret of a receiver has in front, and its bytes.
const RECEIVER_SECRET: (&str, usize) = ("whsec_", 32);

/// A seed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Seed {
    #[serde(default = "utc")]
    pub(super) time_zone: TimeZone,
    #[serde(default)]
    apps: Vec<SeedApp>,
    /// The folder that files of pictures are named from.
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedApp {
    app_id: AppId,
    #[serde(default)]
    name: AppName,
    app_secret: Option<String>,
    pay_key: Option<String>,
    access_token: Option<String>,
    #[serde(default = "all_scopes")]
    scopes: Vec<Scope>,
    #[serde(default)]
    category: Category,
    #[serde(default)]
    language: Language,
    #[serde(default)]
    preorder_check: bool,
    package: Option<PackageVersion>,
    #[serde(default, deserialize_with = "pages")]
    pages: Vec<PagePath>,
    #[serde(default)]
    poi: Vec<PoiId>,
    #[serde(default)]
    preorders: Vec<OrderNo>,
    #[serde(default)]
    players: Vec<SeedPlayer>,
    #[serde(default)]
    pictures: Vec<SeedPicture>,
    #[serde(default)]
    prices: Vec<SeedPrice>,
    #[serde(default)]
    receivers: Vec<SeedReceiver>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedPlayer {
    open_id: OpenId,
    #[serde(default)]
    free: i64,
    #[serde(default)]
    charge: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedPicture {
    file: Option<PathBuf>,
    #[serde(rename = "imgId")]
    img_id: ImgId,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedPrice {
    product_id: PricedProductId,
    currency: Currency,
    amount: i64,
    #[serde(default)]
    charge: i64,
    #[serde(default)]
    bonus: i64,
    #[serde(default)]
    name: PriceName,
    #[serde(default = "yes")]
    active: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedReceiver {
    url: WebUrl,
    #[serde(default)]
    events: Vec<EventType>,
    secret: Option<String>,
    #[serde(default = "standard")]
    format: ReceiverFormat,
}

fn utc() -> TimeZone {
    TimeZone::UTC
}

fn all_scopes() -> Vec<Scope> {
    Scope::ALL.to_vec()
}

fn yes() -> bool {
    true
}

fn standard() -> ReceiverFormat {
    ReceiverFormat::Standard
}

fn pages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PagePath>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| PagePath::of_package(text).map_err(de::Error::custom)).collect()
}

impl Seed {
    /// The seed of this file, or the default one.
    pub(super) fn read(file: Option<&Path>) -> Result<Self> {
        let Some(path) = file else { return Self::parse(Path::new("the default seed"), DEFAULT) };
        let text =
            read_text(path).map_err(|error| anyhow!("--seed: cannot read {}: {error}", path.display()))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { folder, ..Self::parse(path, &text)? })
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| file_fault(path, text, &error))
    }

    /// Makes all that the seed names, in the new database of a sandbox server.
    pub(in crate::cli) async fn plant(&self, context: &Context, store: &Store) -> Result<()> {
        for seed in &self.apps {
            let planted = seed.plant(context, store, &self.folder).await;
            planted.with_context(|| format!("the app {} of the seed", seed.app_id)).map_err(|error| {
                let causes = error.chain().map(ToString::to_string);
                anyhow!(causes.collect::<Vec<_>>().join(": "))
            })?;
        }
        // Receivers come last: they are not told of the seed.
        for seed in &self.apps {
            for receiver in &seed.receivers {
                receiver.plant(context, store, &seed.app_id).await?;
            }
        }
        Ok(())
    }
}

impl SeedApp {
    async fn plant(&self, context: &Context, store: &Store, folder: &Path) -> Result<()> {
        let secrets = self.secrets()?;
        let settings = AppSettings {
            name: self.name.clone(),
            category: self.category,
            scopes: self.scopes.clone(),
            sandbox: true,
            preorder_check: self.preorder_check,
            language: self.language,
        };
        let id = &self.app_id;
        store.create_seed_app(&context.operator, id, settings, secrets).await.map_err(not_done)?;
        if !self.pages.is_empty() || self.package.is_some() {
            let version = PackageVersion::parse("1.0.0").expect("the version is well-formed");
            let version = self.package.clone().unwrap_or(version);
            app::command(context, store, id, AppCommand::Publish(version, self.pages.clone())).await?;
        }
        let players = self.players.iter().map(|player| player.open_id.clone()).collect::<Vec<_>>();
        let offered = [
            (self.poi.is_empty(), AppCommand::AddPois(self.poi.clone())),
            (self.preorders.is_empty(), AppCommand::AddPreorders(self.preorders.clone())),
            (players.is_empty(), AppCommand::AddUsers(players)),
        ];
        for (_, command) in offered.into_iter().filter(|(is_nothing, _)| !is_nothing) {
            app::command(context, store, id, command).await?;
        }
        self.credit(context, store).await?;
        if !self.prices.is_empty() {
            ensure!(self.prices.len() <= PRICES_MAX, "prices: expected at most {PRICES_MAX} products");
            let prices = self.prices.iter().map(SeedPrice::price).collect::<Result<Vec<_>>>()?;
            let set = store.set_prices(&context.operator, id, SetPrices { prices }).await;
            set.map_err(|error| not_done(error).context("prices"))?;
        }
        for picture in &self.pictures {
            picture.plant(context, store, (id, folder)).await?;
        }
        Ok(())
    }

    /// The secrets of the seed, or those that its app id stands for.
    fn secrets(&self) -> Result<FixedSecrets> {
        let secret = |name: &str, given: &Option<String>, end: &str| {
            let secret = given.clone().unwrap_or_else(|| format!("{}-{end}", self.app_id));
            let fits = (1..=SECRET_BYTES_MAX).contains(&secret.len())
                && secret.bytes().all(|byte| byte.is_ascii_graphic());
            ensure!(fits, "{name}: expected 1 to {SECRET_BYTES_MAX} visible ASCII characters");
            Ok(secret)
        };
        Ok(FixedSecrets {
            app_secret: secret("app_secret", &self.app_secret, "secret")?,
            pay_key: secret("pay_key", &self.pay_key, "pay-key")?,
            access_token: secret("access_token", &self.access_token, "token")?,
        })
    }

    async fn credit(&self, context: &Context, store: &Store) -> Result<()> {
        let mut credits = Vec::new();
        for SeedPlayer { open_id, free, charge } in &self.players {
            ensure!(*free >= 0 && *charge >= 0, "players: expected coins from 0 for {open_id}");
            if (*free, *charge) != (0, 0) {
                credits.push(Credit {
                    open_id: open_id.clone(),
                    free: *free,
                    charge: *charge,
                    reference: CreditRef::parse(&format!("seed-{open_id}"))
                        .map_err(|expected| anyhow!("players: {expected}"))?,
                    note: String::new(),
                    create: false,
                });
            }
        }
        for some in credits.chunks(store::CREDITS_MAX) {
            let source =
                CreditsSource { subject: "seed".to_owned(), facts: Map::new(), note: "the seed".to_owned() };
            let credited = store.credit_many(&context.operator, &self.app_id, source, some.to_vec()).await;
            for credit in credited.map_err(not_done)? {
                credit.map_err(|refusal| anyhow!("players: {}", refusal.text.english()))?;
            }
        }
        Ok(())
    }
}

impl SeedPrice {
    /// The product, with figures within their limits.
    fn price(&self) -> Result<Price> {
        let Self { product_id, currency, amount, charge, bonus, name, active } = self;
        for (field, figure, min) in [("amount", amount, 1), ("charge", charge, 0), ("bonus", bonus, 0)] {
            ensure!(
                (min..=FIGURE_MAX).contains(figure),
                "prices: {product_id}: {field}: expected an integer from {min} to {FIGURE_MAX}, got {figure}"
            );
        }
        Price::check_coins(*charge, *bonus)
            .map_err(|expected| anyhow!("prices: {product_id}: {expected}"))?;
        let (product_id, name) = (product_id.clone(), name.clone());
        let (currency, amount, charge, bonus, active) = (*currency, *amount, *charge, *bonus, *active);
        Ok(Price { product_id, currency, amount, charge, bonus, name, active })
    }
}

impl SeedPicture {
    async fn plant(&self, context: &Context, store: &Store, (id, folder): (&AppId, &Path)) -> Result<()> {
        let bytes = match &self.file {
            None => DEMO_PICTURE.to_vec(),
            Some(file) => {
                let path = folder.join(file);
                fs::read(&path).map_err(|error| anyhow!("pictures: {}: {error}", path.display()))?
            }
        };
        let kept =
            pictures::keep(&bytes[..]).map_err(|reason| anyhow!("pictures: {}: {reason}", self.img_id))?;
        let quotas = context.config.limits.image_quotas();
        let KeepOutcome::Kept(img_id) = store.keep_image(id, kept, quotas).await? else {
            bail!("pictures: {} was not stored", self.img_id);
        };
        Ok(store.fix_img_id(id, &img_id, &self.img_id).await?)
    }
}

impl SeedReceiver {
    async fn plant(&self, context: &Context, store: &Store, app_id: &AppId) -> Result<()> {
        let (prefix, bytes) = RECEIVER_SECRET;
        let is_secret = |text: &String| {
            let encoded = text.strip_prefix(prefix);
            encoded
                .and_then(|encoded| BASE64_STANDARD.decode(encoded).ok())
                .is_some_and(|key| key.len() == bytes)
        };
        ensure!(
            self.secret.as_ref().is_none_or(is_secret),
            "the app {app_id} of the seed: receivers: secret: expected {prefix} and the base64 of {bytes} bytes"
        );
        let new = NewReceiver { url: self.url.clone(), events: self.events.clone(), format: self.format };
        let added = store.add_seed_receiver(&context.operator, app_id, new, self.secret.clone()).await;
        added.map(drop).map_err(not_done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `minitill sandbox seed` prints can be read, with what its comments show.
    #[test]
    fn the_default_seed_reads_back_with_its_comments() {
        let seed = Seed::read(None).unwrap();
        let app = &seed.apps[0];
        let secrets = app.secrets().unwrap();
        assert_eq!((app.app_id.as_str(), app.players.len(), app.pictures.len()), ("mygame", 2, 1));
        let prices = app.prices.iter().map(|price| price.price().unwrap()).collect::<Vec<_>>();
        assert_eq!((prices[0].product_id.as_str(), prices[0].charge, prices[0].bonus), ("gems60", 60, 6));
        let secrets = (&*secrets.app_secret, &*secrets.pay_key, &*secrets.access_token);
        assert_eq!(secrets, ("mygame-secret", "mygame-pay-key", "mygame-token"));
        let commented = DEFAULT.split("# [[apps.receivers]]").nth(1).unwrap();
        let receiver = format!("[[apps.receivers]]{}", commented.replace("\n# ", "\n"));
        let seed = Seed::parse(Path::new("s"), &format!("[[apps]]\napp_id = \"a\"\n{receiver}")).unwrap();
        let (app, receiver) = (&seed.apps[0], &seed.apps[0].receivers[0]);
        assert_eq!((receiver.url.as_str(), receiver.events.len()), ("http://127.0.0.1:9000/till", 2));
        let secrets = app.secrets().unwrap();
        assert_eq!(
            (&*secrets.app_secret, &*secrets.pay_key, &*secrets.access_token),
            ("a-secret", "a-pay-key", "a-token")
        );
    }

    #[test]
    fn figures_of_a_price_are_within_their_limits() {
        let fault = |figures: &str| {
            let price = format!("product_id = \"a\"\ncurrency = \"CNY\"\n{figures}");
            toml::from_str::<SeedPrice>(&price).unwrap().price().unwrap_err().to_string()
        };
        let amount = "prices: a: amount: expected an integer from 1 to 1000000000000, got 0";
        assert_eq!(fault("amount = 0\ncharge = 1"), amount);
        let bonus = "prices: a: bonus: expected an integer from 0 to 1000000000000, got -1";
        assert_eq!(fault("amount = 1\ncharge = 1\nbonus = -1"), bonus);
        assert_eq!(fault("amount = 1"), "prices: a: expected 1 or more in charge or bonus");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        let fault = |text: &str| Seed::parse(Path::new("seed.toml"), text).unwrap_err().to_string();
        assert!(
            fault("time_zone = \"UTC\"\ncolour = 1").starts_with("seed.toml, line 2: unknown field `colour`")
        );
        let app = "[[apps]]\napp_id = \"a\"\n";
        assert!(
            fault(&format!("{app}secret = \"a\"")).starts_with("seed.toml, line 3: unknown field `secret`")
        );
        let prices = fault(&format!("{app}[[apps.prices]]\nproduct_id = \"a\"\nprice = 6"));
        assert!(prices.starts_with("seed.toml, line 5: unknown field `price`"), "{prices}");
        let prices = fault(&format!("{app}[[apps.prices]]\nproduct_id = \"a b\""));
        assert_eq!(prices, "seed.toml, line 4: expected 1 to 64 of 0-9A-Za-z._-, got \"a b\"");
        let players = fault(&format!("{app}[[apps.players]]\nopen_id = \"a b\""));
        assert_eq!(players, "seed.toml, line 4: expected 1 to 64 of 0-9A-Za-z_-, got \"a b\"");
    }
}
