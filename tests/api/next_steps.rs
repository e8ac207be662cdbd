//! Rule 2.1.8: the text of each refusal says what to do next, in both languages.

use std::collections::BTreeSet;

use domain::language::Language;
use minitill::config::Config;
use minitill::http::language;
use minitill::http::refusal::Code;
use minitill::public::calls;

/// What of its text tells the next step, for each code: English and Chinese. Codes with several have one for each text.
const STEPS: [(u32, &[(&str, &str)]); 25] = [
    (100_200_100, &[("is missing", "缺失")]),
    (100_200_101, &[("use those that the operator", "请使用运营人员提供的值")]),
    (
        100_200_102,
        &[
            ("/oauth2/access_token", "/oauth2/access_token"),
            ("app_id is missing", "app_id 缺失"),
            ("use the id that the operator", "请使用运营人员提供的 app_id"),
            ("ask the operator", "请联系运营人员"),
            ("run: minitill app change ", "请运行：minitill app change "),
            ("run: minitill app create ", "请运行：minitill app create "),
        ],
    ),
    (100_200_103, &[("a new login gives one", "重新登录")]),
    (
        100_200_114,
        &[
            ("HMAC-SHA256 with the pay key", "HMAC-SHA256"),
            ("data.string_to_sign", "data.string_to_sign"),
            ("run: minitill topup provider", "请运行：minitill topup provider"),
        ],
    ),
    (
        10_000_200,
        &[
            ("expected", "应"),
            ("is missing", "缺失"),
            ("must be equal", "必须相等"),
            ("expected at most", "至多"),
            ("run: minitill topup provider", "请运行：minitill topup provider"),
            ("the first stands", "以首次为准"),
            ("content-encoding: expected none", "不接受任何编码"),
            // Nobody is known at a path that is not there, so it is English.
            ("no such endpoint", "no such endpoint"),
        ],
    ),
    (10_000_303, &[("use another one", "请更换图片")]),
    (
        10_000_305,
        &[
            ("wait as Retry-After says", "请按 Retry-After 等待"),
            ("keep the token", "请保留令牌"),
            ("operator can raise it", "运营人员可以调高"),
        ],
    ),
    (10_000_417, &[("upload the picture again", "重新上传"), ("that an upload answered", "上传接口返回")]),
    (10_000_419, &[("expected", "应")]),
    (10_000_423, &[("minitill user add", "minitill user add"), ("expected the owner", "应为")]),
    (10_000_500, &[("again", "重")]),
    (10_000_601, &[("data has what is there", "data 中有现有余额")]),
    (10_000_602, &[("ask with a query first", "请先查询")]),
    (10_000_603, &[("ask with a query first", "请先查询")]),
    (10_000_604, &[("expected at most", "至多比现在")]),
    (10_000_605, &[("is left to give back", "可退")]),
    (10_000_606, &[("expected the biz_no", "应为已支付"), ("close=1", "close=1")]),
    (10_000_607, &[("holds at most", "至多")]),
    (10_000_608, &[("needs a new number", "新单号")]),
    // Contract 17.2.2 has its words: only the operator can do something.
    (10_000_609, &[("the operator has frozen", "运营方已冻结")]),
    (10_000_610, &[("minitill price set", "minitill price set")]),
    (10_001_007, &[("the nearest page is", "最接近的页面")]),
    (10_002_003, &[("minitill app poi add", "minitill app poi add")]),
    (10_002_018, &[("minitill app preorder add", "minitill app preorder add")]),
];

#[test]
fn each_refusal_says_the_next_step_in_both_languages() {
    let mut lacking = Vec::new();
    let mut shown = BTreeSet::new();
    for call in calls(&Config::load(None, std::iter::empty()).unwrap()) {
        for example in &call.operation.refusals {
            let code = example.refusal.code.number();
            shown.insert(code);
            let steps = STEPS.iter().find(|(known, _)| *known == code).map_or(&[][..], |(_, steps)| steps);
            let english = language::of(Language::En, &example.refusal.message);
            let chinese = language::of(Language::Zh, &example.refusal.message);
            if !steps.iter().any(|(en, zh)| english.contains(en) && chinese.contains(zh)) {
                lacking.push(format!("{} {code} {}: {english} / {chinese}", call.route.id, example.name));
            }
        }
    }
    assert!(lacking.is_empty(), "no next step:\n{}", lacking.join("\n"));
    let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(shown, codes, "every code is shown by a call");
    assert_eq!(
        STEPS.map(|(code, _)| code).into_iter().collect::<BTreeSet<_>>(),
        codes,
        "STEPS has every code"
    );
}
