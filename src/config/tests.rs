mod checks;
mod origins;
mod pages;

use std::time::Duration;

use super::WhenUnavailable;
use super::*;

fn load(variables: &[(&str, &str)]) -> Result<Config, String> {
    let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(None, owned).map_err(|error| error.to_string())
}

/// Rule: the settings that are not printed are those whose files nobody else may write (contract 9.4.8). A
/// setting that takes any text and does not print it is a secret.
#[test]
fn every_secret_setting_is_in_the_list() {
    let defaults: toml::Table = toml::from_str(DEFAULTS).unwrap();
    let is_secret = |section: &str, key: &str| {
        let text = toml::Value::from("name=s3ntinel");
        let mut settings = defaults.clone();
        let setting = &mut settings[section][key];
        *setting = if setting.is_array() { vec![text].into() } else { text };
        let printed = settings.try_into::<Config>().map(|config| format!("{config:?}"));
        printed.is_ok_and(|printed| !printed.contains("s3ntinel"))
    };
    let mut secrets = Vec::new();
    for (section, values) in &defaults {
        let secret = values.as_table().unwrap().keys().filter(|key| is_secret(section, key));
        secrets.extend(secret.map(|key| (section.as_str(), key.as_str())));
    }
    let mut listed = SECRETS;
    listed.sort_unstable();
    assert_eq!(secrets, listed, "a new setting of the type Secret needs its row in SECRETS");
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let config = load(&[]).unwrap();
    assert_eq!(config.public.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(config.ops.listen, "127.0.0.1:8081".parse().unwrap());
    assert_eq!(config.http.body_timeout, Duration::from_secs(30));
    assert_eq!(config.http.connections_max, 10_000);
    assert_eq!(config.exchange.queue_max, 10_000);
    assert_eq!(config.limits.reports_per_second.get(), 2000);
    assert_eq!(config.fetch.ports, [80, 443]);
    assert_eq!(config.database.url.get(), None);
    assert!(config.image_judge.url.is_none());
    assert_eq!(config.image_judge.timeout, Duration::from_secs(2));
    assert_eq!(config.image_judge.when_unavailable, WhenUnavailable::Block);
}

/// Contract 2.7.1, 2.7.4 and 9.6.3. The server has no defaults of its own beside these.
#[test]
fn the_limits_of_the_listeners_are_those_of_the_contract() {
    let limits = http_server::ServerLimits {
        header_bytes_max: 32 * 1024,
        header_timeout: Duration::from_secs(10),
        keep_alive_timeout: Duration::from_secs(75),
        write_timeout: Duration::from_secs(30),
        request_bytes_max: 11_000_000,
        connections_max: 10_000,
        connections_per_address_max: 1_024,
        unlimited_networks: Vec::new(),
        drain_timeout: Duration::from_secs(7),
    };
    assert_eq!(load(&[]).unwrap().server_limits(), limits);
    // Rule 2.7.7: a trusted proxy has no limit of its own.
    let behind = load(&[("MINITILL_PUBLIC__TRUSTED_PROXIES", "10.0.0.0/8")]).unwrap().server_limits();
    assert_eq!(behind.unlimited_networks, ["10.0.0.0/8".parse().unwrap()]);
}

#[test]
fn variables_override_and_lists_are_separated_by_commas() {
    let config = load(&[
        ("MINITILL_PUBLIC__LISTEN", "0.0.0.0:9"),
        ("MINITILL_FETCH__ALLOW_NETWORKS", "10.0.0.0/8, fd00::/8"),
        ("MINITILL_FETCH__PORTS", "80,8080"),
        ("MINITILL_NOTIFY__PORTS", "9000"),
        ("MINITILL_EXCHANGE__PAY_PRIORITY_DEFAULT", "1"),
        ("MINITILL_DATABASE__URL", "postgres://own"),
        ("DATABASE_URL", "postgres://common"),
        ("MINITILL_SERVICE_HOST", "10.0.0.1"),
        ("HOME", "/root"),
    ])
    .unwrap();
    assert_eq!(config.public.listen, "0.0.0.0:9".parse().unwrap());
    assert_eq!(config.fetch.allow_networks.len(), 2);
    assert_eq!(config.fetch.ports, [80, 8080]);
    // What uploads may reach opens nothing for receivers, and the other way round.
    let (uploads, receivers) = (config.fetch_settings(), config.notify_fetch_settings());
    assert_eq!((uploads.ports, uploads.allow_networks.len()), (vec![80, 8080], 2));
    assert_eq!((receivers.ports, receivers.allow_networks.len()), (vec![9000], 0));
    assert_eq!(config.exchange.pay_priority_default.code(), 1);
    assert_eq!(config.database.url.get(), Some("postgres://own"));
    assert!(!format!("{config:?}").contains("postgres://own"));
}

/// Contract 9.2.6: an address without the length of a prefix is that address. What else came is named.
#[test]
fn addresses_and_networks_say_what_is_expected() {
    let config = load(&[("MINITILL_FETCH__ALLOW_NETWORKS", "127.0.0.1,::1,10.0.0.0/8")]).unwrap();
    let networks: [ipnet::IpNet; 3] =
        ["127.0.0.1/32", "::1/128", "10.0.0.0/8"].map(|network| network.parse().unwrap());
    assert_eq!(config.fetch.allow_networks, networks);
    for (name, setting, value, expected) in [
        (
            "MINITILL_OPS__LISTEN",
            "ops.listen",
            "localhost:8081",
            "expected an IP address and a port, such as 127.0.0.1:8081, got \"localhost:8081\"",
        ),
        (
            "MINITILL_PUBLIC__TRUSTED_PROXIES",
            "public.trusted_proxies",
            "proxy",
            "expected an IP address or a network, such as 10.0.0.0/8, got \"proxy\"",
        ),
    ] {
        let refused = load(&[(name, value)]).unwrap_err();
        assert!(refused.contains(expected) && refused.contains(setting), "{refused}");
    }
}

/// Contract 9.2.5.
#[test]
fn what_is_around_the_value_in_a_file_does_not_count() {
    let file = std::env::temp_dir().join(format!("minitill-listen-{}", std::process::id()));
    std::fs::write(&file, "\u{feff}127.0.0.1:9\r\n").unwrap();
    let config = load(&[("MINITILL_OPS__LISTEN_FILE", file.to_str().unwrap())]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(config.unwrap().ops.listen, "127.0.0.1:9".parse().unwrap());
}

/// Contract 8.6.26.
#[test]
fn the_look_of_the_console_is_checked_at_the_start() {
    let load = |name: &str, value: &str| load(&[(&format!("MINITILL_CONSOLE__{name}"), value)]);
    assert_eq!(load("NAME", " Studio – 测试 ").unwrap().console.name.as_str(), "Studio – 测试");
    for word in Colour::WORDS {
        assert_eq!(load("COLOUR", word).unwrap().console.colour.as_str(), word);
    }
    let long = "n".repeat(41);
    for (text, seconds) in [("0s", 0), ("5s", 5), ("1d", 86_400)] {
        assert_eq!(load("REFRESH", text).unwrap().console.refresh, Duration::from_secs(seconds));
    }
    for (name, value, expected) in [
        ("REFRESH", "4s", "expected 0s, or 5s to 1d, got 4s"),
        ("REFRESH", "25h", "expected 0s, or 5s to 1d, got 90000s"),
        ("REFRESH", "on", "expected a duration such as \"5s\" or \"48h\", got \"on\""),
        ("NAME", "", "expected one line of 1 to 40 characters, got \"\""),
        ("NAME", "a\nb", "expected one line of 1 to 40 characters, got \"a\\nb\""),
        ("NAME", &long, "expected one line of 1 to 40 characters, got \"nnnn"),
        ("COLOUR", "Red", "expected none, green, blue, amber or red, got \"Red\""),
        ("COLOUR", "", "expected none, green, blue, amber or red, got \"\""),
    ] {
        let refused = load(name, value).unwrap_err();
        let setting = format!("console.{}", name.to_lowercase());
        assert!(refused.contains(expected) && refused.contains(&setting), "{refused}");
    }
}

/// Contract 14.3.1.
#[test]
fn a_time_zone_is_known_by_its_name() {
    let load = |name: &str| load(&[("MINITILL_CONSOLE__TIME_ZONE", name)]);
    for (name, shown) in
        [("Asia/Shanghai", "Asia/Shanghai"), ("europe/berlin", "Europe/Berlin"), ("UTC", "UTC")]
    {
        assert_eq!(load(name).unwrap().console.time_zone.to_string(), shown);
    }
    for name in ["Asia/Beijing", "+08:00", "CST-8", "../../etc/passwd", "Etc/Unknown"] {
        let refused = load(name).unwrap_err();
        let expected =
            format!("expected the IANA name of a time zone, such as UTC or Asia/Shanghai, got {name:?}");
        assert!(refused.contains(&expected) && refused.contains("console.time_zone"), "{refused}");
    }
}

/// Contract 9.2: a secret comes from a file, without the end of its line.
#[test]
fn a_variable_with_file_behind_its_name_names_a_file() {
    let file = std::env::temp_dir().join(format!("minitill-setting-{}", std::process::id()));
    std::fs::write(&file, "postgres://x\n").unwrap();
    let name = file.to_str().unwrap();
    for variable in ["DATABASE_URL_FILE", "MINITILL_DATABASE__URL_FILE"] {
        let config = load(&[(variable, name)]).unwrap();
        assert_eq!(config.database.url.expose(), "postgres://x");
        assert_eq!(config.secret_files, [file.as_path()]);
    }
    let config = load(&[("MINITILL_SECRETS__MASTER_KEY_FILE", name)]).unwrap();
    assert_eq!(config.secrets.master_key_file, file, "a setting of that name");
    std::fs::remove_file(&file).unwrap();
    let gone = load(&[("MINITILL_S3__SECRET_ACCESS_KEY_FILE", name)]).unwrap_err();
    let expected = "s3.secret_access_key (variable MINITILL_S3__SECRET_ACCESS_KEY_FILE): cannot read ";
    assert!(gone.starts_with(expected), "{gone}");
    let number = load(&[("MINITILL_EXCHANGE__QUEUE_MAX_FILE", name)]).unwrap_err();
    assert!(number.starts_with("unknown setting exchange.queue_max_file"), "{number}");
}

/// Contract 9.4.8.
#[test]
fn files_of_secrets_that_others_can_write_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = std::env::temp_dir().join(format!("minitill-private-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let of = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let shown = file.display().to_string();
        private_files::warning(&file)
            .map_err(|error| error.to_string().replace(&shown, "FILE"))
            .map(|warning| warning.map(|text| text.replace(&shown, "FILE")))
    };
    assert_eq!(of(0o600), Ok(None));
    assert_eq!(of(0o640), Ok(None));
    let group = "FILE holds secrets, and its group can write it; run: chmod 600 FILE";
    assert_eq!(of(0o660), Ok(Some(group.to_owned())));
    let read = "FILE holds secrets, and every user of this machine can read it; run: chmod 600 FILE";
    assert_eq!(of(0o644), Ok(Some(read.to_owned())));
    let written = "FILE holds secrets, and every user of this machine can write it; run: chmod 600 FILE";
    assert_eq!(of(0o602), Err(written.to_owned()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(private_files::warning(&file).unwrap(), None);
}

#[test]
fn a_setting_that_does_not_fit_is_named() {
    let fault = |name: &str, value: &str| load(&[(name, value)]).unwrap_err();
    assert_eq!(
        fault("MINITILL_PUBLIC__PORT", "1"),
        "unknown setting public.port (variable MINITILL_PUBLIC__PORT)"
    );
    assert!(fault("MINITILL_EXCHANGE__QUEUE_MAX", "many").contains("exchange.queue_max"));
    assert!(fault("MINITILL_EXCHANGE__QUEUE_MAX", "0").contains("exchange.queue_max: expected 1 or more"));
    assert!(fault("MINITILL_EXCHANGE__DEADLINE", "soon").contains("got \"soon\""));
    assert!(fault("MINITILL_LOG__FORMAT", "teapot").contains("teapot"));
    let range = "expected an integer from 0 to 1000000; 0 is no limit, got 1000001";
    assert!(fault("MINITILL_LIMITS__UPLOADS_PER_SECOND", "1000001").contains(range));
}

#[test]
fn a_file_overrides_and_its_unknown_settings_are_named() {
    let directory = std::env::temp_dir().join(format!("minitill-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("own.toml");
    let load = |text: &str, variables: &[(&str, &str)]| {
        std::fs::write(&path, text).unwrap();
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(Some(&path), owned).map_err(|error| error.to_string())
    };
    let config =
        load("[image]\nunused_ttl = \"2h\"\n[log]\nformat = \"json\"", &[("MINITILL_LOG__FORMAT", "text")])
            .unwrap();
    assert_eq!((config.image.unused_ttl, config.log.format), (Duration::from_hours(2), LogFormat::Text));
    assert!(load("[image]\nttl = 1", &[]).unwrap_err().contains("unknown setting image.ttl"));
    assert!(load("[images]\nttl = 1", &[]).unwrap_err().contains("unknown section [images]"));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Rule: headers for the collector are headers, and are never printed.
#[test]
fn headers_for_the_collector_are_secret() {
    let headers = |text: &str| load(&[("MINITILL_TRACING__OTLP_HEADERS", text)]);
    let config = headers("authorization=Bearer s3cret==, x-tenant = t").unwrap();
    let read = &config.tracing.otlp_headers;
    assert_eq!(read["authorization"].expose(), "Bearer s3cret==");
    assert_eq!((read["x-tenant"].expose(), read.len()), ("t", 2));
    assert!(!format!("{config:?}").contains("s3cret"));
    for text in ["s3cret", "=s3cret", "a b=s3cret", "a=s3cret\u{1}", "7"] {
        let fault = headers(text).unwrap_err();
        assert!(
            fault.contains("expected a list of HTTP headers") && fault.contains("otlp_headers"),
            "{fault}"
        );
        assert!(!fault.contains("s3cret"), "{fault}");
    }
}

/// Rule: a judge is asked at a URL that can be asked, and never without a key; neither is printed.
#[test]
fn a_judge_of_pictures_has_a_url_and_a_key() {
    let judge = |url: &str, secret: &str| {
        load(&[("MINITILL_IMAGE_JUDGE__URL", url), ("MINITILL_IMAGE_JUDGE__SECRET", secret)])
    };
    let (key, short) = ("0123456789abcdef", "0123456789abcde");
    let config = judge("http://10.0.0.7:8090/v1?token=t0ken", key).unwrap();
    assert!(config.image_judge.url.is_some());
    let shown = format!("{config:?}");
    assert!(!shown.contains(key) && !shown.contains("t0ken") && !shown.contains("10.0.0.7"), "{shown}");
    assert!(judge("", short).is_ok(), "without a judge there is nothing to sign");
    for secret in ["", short] {
        let fault = judge("http://10.0.0.7/", secret).unwrap_err();
        assert_eq!(fault, "image_judge.secret: expected 16 bytes or more beside image_judge.url");
    }
    for url in ["10.0.0.7:8090", "ftp://a.example/", "http://u:p4ss@a.example/", "/judge", "http://"] {
        let fault = judge(url, key).unwrap_err();
        assert!(fault.contains("expected an absolute http or https URL with a host"), "{fault}");
        assert!(fault.contains("url") && !fault.contains("p4ss"), "{fault}");
    }
    let fault = load(&[("MINITILL_IMAGE_JUDGE__WHEN_UNAVAILABLE", "maybe")]).unwrap_err();
    assert!(fault.contains("maybe"), "{fault}");
}

/// Contract 8.6.20: a provider is reached in private, and somebody may come in.
#[test]
fn a_provider_of_sign_ins_is_whole() {
    let whole = [
        ("MINITILL_OIDC__ISSUER", "https://login.example/realms/a"),
        ("MINITILL_OIDC__CLIENT_ID", "till"),
        ("MINITILL_OIDC__CLIENT_SECRET", "s3cret"),
        ("MINITILL_OIDC__REDIRECT_URL", "https://till.example/console/sign-in/callback"),
        ("MINITILL_OIDC__VIEWER_GROUP", "viewers"),
    ];
    let with = |name: &'static str, value: &'static str| load(&[&whole[..], &[(name, value)]].concat());
    let config = load(&whole).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
    assert!(with("MINITILL_OIDC__ISSUER", "").is_ok(), "without a provider nothing is missing");
    for local in ["http://localhost:9000", "http://127.0.0.1:9000/", "http://[::1]:9000"] {
        assert!(with("MINITILL_OIDC__ISSUER", local).is_ok(), "{local}");
    }
    for (name, value, expected) in [
        ("MINITILL_OIDC__ISSUER", "http://login.example", "oidc.issuer: expected an https URL"),
        ("MINITILL_OIDC__ISSUER", "login.example", "oidc.issuer: expected an https URL"),
        ("MINITILL_OIDC__ISSUER", "https://u:s3cret@login.example", "oidc.issuer: expected an https URL"),
        ("MINITILL_OIDC__ISSUER", "https://login.example/?a=b", "oidc.issuer: expected an https URL"),
        ("MINITILL_OIDC__CLIENT_ID", "", "oidc.client_id: expected an id"),
        ("MINITILL_OIDC__REDIRECT_URL", "", "oidc.redirect_url: expected an https URL"),
        (
            "MINITILL_OIDC__REDIRECT_URL",
            "https://till.example/console",
            "oidc.redirect_url: expected an https URL",
        ),
        (
            "MINITILL_OIDC__REDIRECT_URL",
            "http://till.example/console/sign-in/callback",
            "oidc.redirect_url: expected an https URL",
        ),
        ("MINITILL_OIDC__GROUPS_CLAIM", "", "oidc.groups_claim: expected the name of a claim"),
        (
            "MINITILL_OIDC__VIEWER_GROUP",
            "",
            "oidc.admin_group to oidc.viewer_group: expected a group in one of them",
        ),
    ] {
        let fault = with(name, value).unwrap_err();
        assert!(fault.starts_with(expected) && !fault.contains("s3cret"), "{name} {value}: {fault}");
    }
}

#[test]
fn settings_of_pictures_that_do_not_fit_are_named() {
    let fault = |variables: &[(&str, &str)]| load(variables).unwrap_err();
    let folder = [("MINITILL_IMAGE__STORE", "folder")];
    assert_eq!(fault(&folder), "image.folder: expected a folder, because image.store is \"folder\"");
    let s3 = [("MINITILL_IMAGE__STORE", "s3")];
    assert_eq!(fault(&s3), "s3.bucket: expected a bucket, because image.store is \"s3\"");
    assert!(fault(&[("MINITILL_IMAGE__STORE", "tape")]).contains("tape"));
    let bucket = ("MINITILL_S3__BUCKET", "b");
    assert!(fault(&[bucket]).starts_with("s3.access_key_id: "));
    let key = ("MINITILL_S3__ACCESS_KEY_ID", "k");
    assert!(fault(&[bucket, key]).starts_with("s3.secret_access_key: "));
    let secret = ("MINITILL_S3__SECRET_ACCESS_KEY", "a secret text");
    let endpoint = |address| [bucket, key, secret, ("MINITILL_S3__ENDPOINT", address)];
    for address in ["localhost:9000", "ftp://host", "https://u:p@host", "not an address"] {
        assert!(fault(&endpoint(address)).starts_with("s3.endpoint: expected an address"), "{address}");
    }
    assert!(fault(&endpoint("http://127.0.0.1:9000")).contains("s3.allow_http"));
    let config = load(&endpoint("https://s3.example.com")).unwrap();
    assert!(!format!("{config:?}").contains("a secret text"));
    assert!(!format!("{:?}", config.store_settings()).contains("a secret text"));
}
