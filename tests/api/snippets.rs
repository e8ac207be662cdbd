//! The signing snippets of the README: each language that is on this machine signs a request
//! with awkward values, and the server takes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::game::{Game, PATH};
use crate::support::{Request, TestApp, TestTill};

const LANGUAGES: [(&str, &str); 5] = [
    ("sign.py", "python"),
    ("sign.js", "javascript"),
    ("Sign.java", "java"),
    ("sign.go", "go"),
    ("sign.php", "php"),
];

fn snippet(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sign").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_readme_shows_the_very_snippets() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    for (name, language) in LANGUAGES {
        let block = format!("```{language}\n{}```", snippet(name));
        assert!(readme.contains(&block), "README.md and examples/sign/{name} differ");
    }
}

/// Whether a program is on this machine.
fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg(if program == "go" { "version" } else { "--version" })
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Fields that are easily signed wrong: the text that is signed is not the text that is sent.
fn awkward(app: &TestApp, biz_no: &str) -> Game {
    Game::new(app, "o1", biz_no, 10)
        .with("product_name", "剑 & shield = 100% + \"more\" ~'()*!")
        .with("product_desc", "a\\b/c?d#e\u{1f600}")
        .with("pay_priority", "")
        .with("extension", "")
        .with("zone_id", "区_角色")
}

/// A program around the snippet that prints the signed body. Values are passed as a JSON text,
/// which every one of these languages also reads as a text of its own.
fn program(language: &str, app: &TestApp, game: &Game) -> (String, String) {
    let quote = |text: &str| serde_json::to_string(text).unwrap();
    let key = quote(&app.pay_key);
    let pairs = |separator: &str, open: &str, close: &str| {
        let pairs = game
            .fields
            .iter()
            .map(|(name, value)| format!("{open}{}{separator}{}{close}", quote(name), quote(value)));
        pairs.collect::<Vec<_>>().join(", ")
    };
    match language {
        "python" => (
            "run.py".to_owned(),
            format!("{}\nprint(signed_body({key}, {{{}}}))\n", snippet("sign.py"), pairs(": ", "", "")),
        ),
        "javascript" => (
            "run.js".to_owned(),
            format!("{}\nconsole.log(signedBody({key}, {{{}}}));\n", snippet("sign.js"), pairs(": ", "", "")),
        ),
        "java" => {
            let run = format!(
                "{}\nclass Run {{ public static void main(String[] none) throws Exception {{\n\
                 System.out.println(Sign.signedBody({key}, Map.ofEntries({})));\n}} }}\n",
                snippet("Sign.java"),
                pairs(", ", "Map.entry(", ")")
            );
            // `java FILE` runs the first class of the file.
            let (imports, classes) = run.split_once("class Sign").unwrap();
            let (sign, run) = classes.split_once("\nclass Run").unwrap();
            ("Run.java".to_owned(), format!("{imports}class Run{run}\nclass Sign{sign}"))
        }
        "go" => {
            let imported = snippet("sign.go").replace("import (\n", "import (\n\t\"fmt\"\n");
            let run = format!(
                "{imported}\nfunc main() {{ fmt.Println(SignedBody({key}, map[string]string{{{}}})) }}\n",
                pairs(": ", "", "")
            );
            ("run.go".to_owned(), run)
        }
        "php" => {
            let json = quote(&serde_json::to_string(&game.fields).unwrap()).replace('$', "\\$");
            (
                "run.php".to_owned(),
                format!("{}\necho signed_body({key}, json_decode({json}, true));\n", snippet("sign.php")),
            )
        }
        other => panic!("no program for {other}"),
    }
}

fn run(folder: &Path, language: &str, app: &TestApp, game: &Game) -> String {
    let (file, text) = program(language, app, game);
    let path: PathBuf = folder.join(file);
    std::fs::write(&path, text).unwrap();
    let mut command = match language {
        "python" => Command::new("python3"),
        "javascript" => Command::new("node"),
        "java" => Command::new("java"),
        "go" => {
            let mut go = Command::new("go");
            go.arg("run");
            go
        }
        "php" => Command::new("php"),
        other => panic!("no command for {other}"),
    };
    if language == "java" {
        command.arg("-Dfile.encoding=UTF-8");
    }
    let output = command.arg(&path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{language}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_language_on_this_machine_signs_what_the_server_takes() {
    let till = TestTill::start().await;
    let app = till.app("a1").await;
    till.player(&app, "o1", 0, 1000).await;
    let folder = std::env::temp_dir().join(format!("minitill-snippets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let programs =
        [("python", "python3"), ("javascript", "node"), ("java", "java"), ("go", "go"), ("php", "php")];
    for (language, program) in programs {
        if !is_there(program) {
            eprintln!("{language} is not on this machine: its snippet was not run");
            continue;
        }
        let game = awkward(&app, &format!("b{language}"));
        let body = run(&folder, language, &app, &game);
        let answer = till.send(Request::post(PATH).body(body)).await;
        assert_eq!(answer.code(), 1, "{language}: {}", answer.body);
        // The same request, signed here, is a replay: nothing was changed on the way.
        let again = game.send(&till).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{language}: {}", again.body);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
