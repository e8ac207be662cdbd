//! Promises of docs/api.md that code can check. Its signing snippets sign as the server does (contract
//! 3.2), it shows them as they are, and it lists every code (contract 7.1).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use domain::signature::PayKey;
use minitill::http::refusal::Code;

use crate::game::{Game, PATH};
use crate::support::{Request, TestApp, TestTill, form};

/// How long a snippet may run; the first one of a language may have to be compiled.
const RUN_WITHIN: Duration = Duration::from_mins(2);

/// A program in `examples/sign`: takes a pay key and a form, prints the signed form.
struct Snippet {
    file: &'static str,
    /// What the page calls its language, after the three backticks.
    language: &'static str,
    /// What runs it, before its path.
    command: &'static [&'static str],
    /// What succeeds where the language is on the machine.
    probe: &'static [&'static str],
}

const SNIPPETS: [Snippet; 6] = [
    Snippet { file: "sign.py", language: "python", command: &["python3"], probe: &["python3", "--version"] },
    Snippet { file: "sign.js", language: "js", command: &["node"], probe: &["node", "--version"] },
    // Before version 9 there is no `--version`, and before 11 no source file can be run.
    Snippet { file: "Sign.java", language: "java", command: &["java"], probe: &["java", "--version"] },
    Snippet { file: "sign.go", language: "go", command: &["go", "run"], probe: &["go", "version"] },
    Snippet { file: "sign.php", language: "php", command: &["php"], probe: &["php", "--version"] },
    Snippet {
        file: "Sign.cs",
        language: "csharp",
        command: &[
            "sh",
            "-c",
            r#"out=$(mktemp); trap 'rm "$out"' EXIT; mcs -out:"$out" "$0" && mono "$out" "$@""#,
        ],
        probe: &["mcs", "--version"],
    },
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn guide() -> String {
    fs::read_to_string(repository().join("docs/api.md")).unwrap()
}

impl Snippet {
    fn path(&self) -> PathBuf {
        repository().join("examples/sign").join(self.file)
    }

    fn is_on_this_machine(&self) -> bool {
        let mut command = Command::new(self.probe[0]);
        command.args(&self.probe[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// What it prints for this key and form.
    fn run(&self, key: &str, form: &str) -> String {
        let mut command = Command::new(self.command[0]);
        command.args(&self.command[1..]).arg(self.path()).args([key, form]);
        // A server's locale is often none at all; and Go must not look for a newer Go.
        command.env("LC_ALL", "C").envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it ran a moment ago");
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > RUN_WITHIN {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{} runs for {RUN_WITHIN:?}", self.file);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut printed = String::new();
        // A signed form is far smaller than what a pipe holds.
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(status.success(), "{}: {status}", self.file);
        printed.strip_suffix('\n').expect("one line").to_owned()
    }
}

/// Exchanges whose text is easy to get wrong, each with a name.
fn tricky_exchanges(app: &TestApp, number: &str) -> [(&'static str, Game); 3] {
    let game = |case: &str| Game::new(app, "o1", &format!("{number}{case}"), 1);
    [
        (
            "every field, with text of every kind",
            game("a")
                .with("pay_priority", "1")
                .with("product_name", "  Schwert & Schild = 100 % + ~*-_.!'() 漢字 🗡  ")
                .with("product_desc", "%41%2B a+b \"q\" \\ <b> ;,/?:@# line\nline\ttab é e\u{301}")
                .with(
                    "product_info",
                    r#"[{"product_id":1,"product_num":2,"product_type":0,"n":"漢 & a=b+c%20"}]"#,
                )
                .with("extension", r#"{"k":"v=1&w=2+3 %","sign":"no"}"#),
        ),
        ("empty pay_priority and extension", game("b").with("pay_priority", "").with("extension", "")),
        ("pay_priority and extension left out", game("c")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "six languages take long to start: cargo xtask proofs snippets"]
async fn every_snippet_signs_as_the_server_does() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 100, 100).await;
    let key = PayKey::new(app.pay_key.clone());
    for (index, snippet) in SNIPPETS.iter().enumerate() {
        if !snippet.is_on_this_machine() {
            println!("{} is left out: {} is not on this machine", snippet.file, snippet.probe[0]);
            continue;
        }
        for (case, game) in tricky_exchanges(&app, &index.to_string()) {
            let fields: Vec<(&str, &str)> =
                game.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let body = snippet.run(&app.pay_key, &form(&fields));
            let mut expected: BTreeMap<String, String> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            expected.insert("sign".to_owned(), key.sign(&game.string_to_sign()));
            let signed: BTreeMap<String, String> =
                form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            assert_eq!(signed, expected, "{}, {case}: {body}", snippet.file);
            let request = Request::post(PATH).header("content-type", "application/x-www-form-urlencoded");
            let answer = till.send(request.body(body)).await;
            assert_eq!(answer.code(), 1, "{}, {case}: {}", snippet.file, answer.body);
        }
    }
}

#[test]
fn the_guide_shows_every_snippet_as_it_is() {
    let guide = guide();
    for snippet in &SNIPPETS {
        let text = fs::read_to_string(snippet.path()).unwrap();
        let shown = format!("```{}\n{text}```\n", snippet.language);
        assert!(guide.contains(&shown), "docs/api.md does not show examples/sign/{} as it is", snippet.file);
    }
    let mut files: Vec<_> = fs::read_dir(repository().join("examples/sign"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // Python makes it when the complete client imports the snippet.
        .filter(|name| name != "__pycache__")
        .collect();
    files.sort();
    let mut known = SNIPPETS.map(|snippet| snippet.file);
    known.sort_unstable();
    assert_eq!(files, known, "every file in examples/sign is run and shown");
}

#[test]
fn the_contract_lists_every_code() {
    let contract = fs::read_to_string(repository().join("docs/contract.md")).unwrap();
    for code in Code::ALL {
        let row = format!("| {} |", code.number());
        assert!(contract.contains(&row), "docs/contract.md has no row that begins with {row:?}");
    }
}
