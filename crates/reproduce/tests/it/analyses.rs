//! Do the analytic figures come out as their files say, is every erratum shown, and does a changed value change the verdict?

use memtint_reproduce::figure::{Expectation, Figure};
use memtint_reproduce::{Comparison, Options, Verdict, catalogue, reproduce};

const SHORT: Options = Options { threads: 1, short: true, seed: None };

fn analytic() -> Vec<Figure> {
    catalogue::figures()
        .unwrap()
        .into_iter()
        .filter(|figure| !figure.analysis.is_empty() && figure.run.is_empty())
        .collect()
}

fn compared(figure: &Figure) -> Comparison {
    let mut all = reproduce(std::slice::from_ref(figure), SHORT, &|_: f64| true).unwrap();
    all.remove(0).comparison
}

/// The text of a figure, some of it replaced.
fn text(id: &str, replaced: &[(&str, &str)]) -> String {
    let mut text = std::fs::read_to_string(format!("figures/{id}.toml")).unwrap();
    for (from, to) in replaced {
        assert!(text.contains(from), "{from:?} is not in {id}");
        text = text.replacen(from, to, 1);
    }
    text
}

fn changed(id: &str, replaced: &[(&str, &str)]) -> Comparison {
    compared(&catalogue::parse(&text(id, replaced), id).unwrap())
}

#[test]
fn every_analytic_figure_comes_out_as_its_file_says() {
    let figures = analytic();
    assert!(figures.len() >= 13, "{}", figures.len());
    for figure in &figures {
        let comparison = compared(figure);
        assert!(comparison.is_as_expected(), "{comparison:#?}");
        let verdict = match figure.expects {
            Some(Expectation::Errata) => Verdict::CannotBeRight,
            _ => Verdict::Within,
        };
        assert_eq!(comparison.verdict, verdict, "{comparison:#?}");
        assert!(comparison.errata.iter().all(|erratum| erratum.shown), "{comparison:#?}");
        assert!(comparison.values.iter().all(|value| value.exact.is_some()), "{comparison:#?}");
        assert!(comparison.claims.iter().all(|claim| claim.holds.is_some()), "{comparison:#?}");
        assert!(comparison.rows.iter().all(|row| row.found.is_some()), "{comparison:#?}");
        // What deviates, and only that, has an erratum.
        let claims = comparison.claims.iter().map(|claim| (&claim.say, claim.holds == Some(true), &claim.errata));
        let rows = comparison.rows.iter().map(|row| (&row.name, row.equal == Some(true), &row.errata));
        for (name, agrees, errata) in claims.chain(rows) {
            assert_eq!(agrees, errata.is_empty(), "{}: {name}", figure.id);
        }
    }
}

#[test]
fn a_changed_number_changes_the_verdict() {
    let id = "colored-refresh-table4.4";
    assert_eq!(changed(id, &[]).verdict, Verdict::CannotBeRight);
    let wrong = changed(id, &[("published = 320", "published = 325")]);
    assert_eq!((wrong.verdict, wrong.is_as_expected()), (Verdict::Differs, false));
    assert!(wrong.verdict_text.contains("cycle L deviates"), "{}", wrong.verdict_text);
    // A published value that is right after all leaves its erratum nothing to explain.
    let right = changed(id, &[("published = 0.05\n", "published = 0.0055\n")]);
    assert_eq!(right.verdict, Verdict::Differs);
    assert!(right.verdict_text.contains("overhead is not shown"), "{}", right.verdict_text);
}

#[test]
fn a_changed_list_changes_the_verdict() {
    let id = "colored-refresh-table4.2";
    let wrong = changed(id, &[("B = [\"c3\", \"c4\", \"c7\", \"c8\"]", "B = [\"c3\", \"c4\", \"c7\"]")]);
    assert_eq!(wrong.verdict, Verdict::Differs);
    assert!(wrong.verdict_text.contains("available ranks of B deviates"), "{}", wrong.verdict_text);
    // Frames in which jobs do not fit: the checker has nothing to accept.
    let id = "colored-refresh-fig4.3";
    let wrong = changed(id, &[("C = [\"f3\", \"f4\", \"f7\"]", "C = [\"f3\", \"f4\"]")]);
    assert_eq!((wrong.verdict, wrong.is_as_expected()), (Verdict::Differs, false));
    // A color that is refreshed while its task runs.
    let wrong = changed(id, &[("C = [\"c5\"]", "C = [\"c4\"]")]);
    assert_eq!(wrong.verdict, Verdict::Differs);
}

#[test]
fn a_changed_task_changes_the_verdict() {
    let wrong = changed("crs-fig5.5", &[("wcet = \"4 ms\", server = \"S1\"", "wcet = \"5 ms\", server = \"S1\"")]);
    assert_eq!(wrong.verdict, Verdict::Differs);
    let wrong = changed(
        "crs-table5.2",
        &[("period = \"4 ms\", budget = \"2.4 ms\"", "period = \"4 ms\", budget = \"2.5 ms\"")],
    );
    assert_eq!(wrong.verdict, Verdict::Differs);
}

#[test]
fn an_erratum_that_is_not_shown_is_a_difference() {
    let id = "crs-example5.3.5";
    let wrong = changed(id, &[("exactly = \"11\"", "exactly = \"12\"")]);
    assert_eq!((wrong.verdict, wrong.is_as_expected()), (Verdict::Differs, false));
    let erratum = wrong.errata.iter().find(|erratum| erratum.number == "E27").unwrap();
    assert!(!erratum.shown && erratum.evidence.iter().any(|one| !one.holds && one.found == "11"), "{erratum:#?}");
    // Nor is one whose result does not exist.
    let wrong = changed(id, &[("\"S1 exact budget ms\" }, exactly", "\"S3 exact budget ms\" }, exactly")]);
    assert_eq!(wrong.verdict, Verdict::Differs);
    assert!(wrong.errata.iter().flat_map(|erratum| &erratum.evidence).any(|one| one.found == "nothing"));
    // An erratum is never counted as agreement, even if everything agrees.
    let mut figure = catalogue::find("colored-refresh-fig4.3").unwrap();
    assert_eq!(compared(&figure).verdict, Verdict::Within);
    figure.erratum = catalogue::find("colored-refresh-table4.2").unwrap().erratum;
    assert_eq!(compared(&figure).verdict, Verdict::Differs, "its evidence is of other analyses");
}

#[test]
fn exact_values_are_exact() {
    let comparison = compared(&catalogue::find("crs-table5.2").unwrap());
    let of = |name: &str| comparison.values.iter().find(|value| value.name == name).unwrap().exact.clone().unwrap();
    assert_eq!(of("budget that the tasks of S2 need, by the exact supply"), "74/45");
    assert_eq!(of("utilization of the set"), "93/100");
    assert_eq!(of("16 Gbit, late jobs in 320 ms"), "16");
}

#[test]
fn what_is_wrong_with_an_analysis_is_said() {
    let id = "colored-refresh-table4.2";
    let refusal = |from: &str, to: &str| catalogue::parse(&text(id, &[(from, to)]), id).unwrap_err().to_string();
    let said = |from: &str, to: &str, words: &[&str]| {
        let error = refusal(from, to);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    said("method = \"place\"", "method = \"guess\"", &["guess", "place"]);
    said("method = \"place\"", "method = \"frame-rules\"", &["occupied as printed", "with", "colors", "nothing"]);
    said("taskset = \"example\"", "taskset = \"other\"", &["occupied as printed", "taskset", "other", "example"]);
    said("wcet = \"4 ms\"", "wcet = \"4\"", &["task \"A\"", "wcet", "\"4\""]);
    said("wcet = \"4 ms\"", "wcet = \"0 ms\"", &["\"A\"", "wcet"]);
    said("A = [\"f1\", ", "A = [\"f0\", ", &["with.occupied", "f0", "f1 to f64"]);
    said("A = [\"f1\", ", "Z = [\"f1\", ", &["with.occupied", "Z", "A, B, C"]);
    said("A = [\"c2\"]", "A = [\"c2+\"]", &["with.colors", "c1 to c64"]);
    said("name = \"other frames, slices", "name = \"occupied as printed, slices", &["a unique name"]);
    said(
        "analysis = \"occupied as printed\", result",
        "analysis = \"occupied\", result",
        &["occupied", "name of an analysis"],
    );
    said("is = \"yes\"", "is = \"maybe\"", &["maybe"]);
    said("is = \"yes\"\n", "is = \"yes\"\nexactly = \"1\"\n", &["claim", "one of is, exactly"]);
    said("exactly = \"0\"", "exactly = \"zero\"", &["shown", "zero", "fraction"]);
    said("expects = \"errata\"", "expects = \"within\"", &["expects", "errata"]);
    said("explains = [\"Long jobs", "explains = [\"Longer jobs", &["explains", "Longer jobs", "claim"]);
    said("why = \"C = 16 ms", "why = \" \" #", &["why", "empty"]);
    said("number = \"3.2, Example 1\"", "numbers = \"3.2\"", &["numbers"]);
    let long = text(id, &[]) + &"#".repeat(1 << 20);
    assert!(catalogue::parse(&long, id).unwrap_err().to_string().contains("bytes"));
    let items = vec!["\"x\""; 40_000].join(", ");
    let point = "[[point]]\nname = \"{each}\"\neach = \"many\"\nunit = \"x\"\n";
    let repeated = text(id, &[("[lists]\n", &format!("[lists]\nmany = [{items}]\n"))]) + &point.repeat(2);
    assert!(catalogue::parse(&repeated, id).unwrap_err().to_string().contains("at most 65536"));
    let many = "0123456789abcdefghij".chars().map(|letter| format!("\"{letter}\"")).collect::<Vec<_>>().join(", ");
    let analyses: String = (0..20)
        .map(|index| {
            format!("[[analysis]]\nname = \"{{each}} {index}\"\neach = \"many\"\ntaskset = \"example\"\nmethod = \"task-set\"\n")
        })
        .collect();
    let many = text(id, &[("[lists]\n", &format!("[lists]\nmany = [{many}]\n"))]) + &analyses;
    assert!(catalogue::parse(&many, id).unwrap_err().to_string().contains("at most 256"));
}

#[test]
fn what_is_wrong_with_an_analysis_of_a_memory_is_said() {
    let id = "memguard-guaranteed";
    let said = |from: &str, to: &str, words: &[&str]| {
        let error = catalogue::parse(&text(id, &[(from, to)]), id).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    said("device = \"ddr2-800\"", "device = \"ddr9\"", &["DDR2-800", "with", "device \"ddr9\"", "ddr2-800, "]);
    said("refresh = \"staggered\"", "refresh = \"same-bank\"", &["refresh \"same-bank\"", "staggered"]);
    said("line_bytes = 64", "line_bytes = 0", &["line_bytes 0", "1 to 4096"]);
    said(", line_bytes = 64", "", &["line_bytes"]);
    said("method = \"guaranteed-bandwidth\"", "method = \"task-set\"", &["taskset is absent", "[taskset.NAME]"]);
    let with_tasks = "method = \"guaranteed-bandwidth\"\ntaskset = \"one\"";
    said("method = \"guaranteed-bandwidth\"", with_tasks, &["taskset", "one", "none"]);
}

#[test]
fn what_is_wrong_with_a_reservation_rule_is_said() {
    let id = "memguard-rule";
    let said = |from: &str, to: &str, words: &[&str]| {
        let error = catalogue::parse(&text(id, &[(from, to)]), id).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    said("[1000, 200]", "[]", &["1.0 and 0.2 GB/s", "no budgets_mb_per_s", "one of each core"]);
    said("[1000, 200]", "[1000, 0]", &["budgets_mb_per_s 0", "1 to 1000000"]);
    said("line_bytes = 64", "line_bytes = 1000000", &["budget of group 1 is 0"]);
    said(
        "guaranteed_mb_per_s = 1200, quantum = 1, skid = 0, period_us = 1000",
        "guaranteed_mb_per_s = 200000, quantum = 1, skid = 0, period_us = 1000000",
        &["guaranteed events", "3125000000", "accepted are up to 2147483647"],
    );
    said("guaranteed_mb_per_s = 1200", "guarantee = 1200", &["guarantee", "guaranteed_mb_per_s"]);
    let with_tasks = "method = \"reservation-rule\"\ntaskset = \"one\"";
    said("method = \"reservation-rule\"", with_tasks, &["taskset", "one", "none"]);
}

#[test]
fn claims_on_what_the_short_form_leaves_out_are_not_looked_at() {
    let figure = |short: &str| {
        let text = format!(
            "schema = 1\nid = \"f\"\npaper = \"p\"\ntitle = \"t\"\nsource = \"s\"\nkind = \"claim\"\nexpects = \"trend\"\n\
            [lists]\nwcets = [\"1 ms\", \"2 ms\"]\n[short]\n{short}\n\
            [taskset.one]\ntask = [{{ name = \"a\", period = \"4 ms\", wcet = \"1 ms\" }}]\n\
            [[analysis]]\nname = \"{{each}}\"\neach = \"wcets\"\ntaskset = \"one\"\nmethod = \"task-set\"\n\
            [[point]]\nname = \"U {{each}}\"\neach = \"wcets\"\nunit = \"1\"\n\
            answer = {{ analysis = \"{{each}}\", result = \"utilization\" }}\n\
            [[claim]]\nsay = \"c\"\nsource = \"s\"\npoint = \"U 2 ms\"\nat_most = 0.5\n"
        );
        let comparison = compared(&catalogue::parse(&text, "f").unwrap());
        comparison.claims[0].holds
    };
    assert_eq!((figure(""), figure("wcets = [\"1 ms\"]")), (Some(true), None));
}
