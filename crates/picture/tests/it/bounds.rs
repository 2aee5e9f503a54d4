//! Nothing is drawn outside of a picture, and every picture says what it is to those who cannot see it.

use roxmltree::{Document, Node};

use crate::samples;

/// Letters are at most so wide in the mean, as parts of their size: plain, and bold. (DejaVu Sans, one of the widest.)
const LETTERS: (f64, f64) = (0.6, 0.66);

/// A box: left, top, right, bottom.
type Extent = (f64, f64, f64, f64);

/// The samples, and the pictures of real data that the golden files of the program hold.
fn pictures() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/golden");
    let files = std::fs::read_dir(folder).expect("it is there").map(|file| file.expect("it can be read").path());
    let drawn = files.filter_map(|path| {
        let text = std::fs::read_to_string(&path).ok().filter(|text| text.starts_with("<svg "))?;
        Some((path.display().to_string(), text))
    });
    samples::all().into_iter().chain(drawn).collect()
}

#[test]
fn nothing_lies_outside_of_the_view_box() {
    let pictures = pictures();
    assert!(pictures.len() >= samples::all().len() + 9, "{}", pictures.len());
    for (name, svg) in pictures {
        let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        let numbers = numbers(document.root_element().attribute("viewBox").expect("it has one"));
        let [left, top, width, height] = numbers[..] else { panic!("{name}: {numbers:?}") };
        let drawn = document.descendants().filter(|node| node.is_element() && !is_definition(*node));
        let mut seen = 0;
        for node in
            drawn.filter(|node| !matches!(node.tag_name().name(), "svg" | "g" | "title" | "desc" | "style" | "defs"))
        {
            let (from, above, to, below) = extent(node);
            let inside = from >= left && above >= top && to <= left + width && below <= top + height;
            let what = &svg[node.range()];
            assert!(inside, "{name}: {what} from {from} {above} to {to} {below}, of {width} x {height}");
            seen += 1;
        }
        assert!(seen > 1, "{name}");
    }
}

#[test]
fn an_element_beyond_the_edge_would_be_found() {
    let of = |element: &str| {
        let document = Document::parse(element).unwrap();
        extent(document.root_element())
    };
    assert_eq!(of(r#"<rect x="2" y="3" width="4" height="5"/>"#), (2.0, 3.0, 6.0, 8.0));
    assert_eq!(of(r#"<path d="M10 20V5H30 l-5 2 M1.5 2 L3,4 h36 Z"/>"#), (1.5, 2.0, 39.0, 20.0));
    assert_eq!(of(r#"<circle cx="5" cy="5" r="3"/>"#), (2.0, 2.0, 8.0, 8.0));
    assert_eq!(
        of(r#"<text x="50" y="20" font-size="10" text-anchor="middle">0123456789</text>"#),
        (20.0, 10.0, 80.0, 22.5)
    );
}

#[test]
fn pictures_speak_to_screen_readers_and_fit_dark_ground() {
    for (name, svg) in pictures() {
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"), "{name}");
        let first: Vec<Node<'_, '_>> = root.children().filter(Node::is_element).take(2).collect();
        assert_eq!(first.iter().map(|node| node.tag_name().name()).collect::<Vec<_>>(), ["title", "desc"], "{name}");
        assert!(first.iter().all(|node| node.text().is_some_and(|text| text.len() > 8)), "{name}");
        let style =
            root.children().find(|node| node.has_tag_name("style")).and_then(|node| node.text()).expect("styles");
        let (light, dark) = style.split_once("@media (prefers-color-scheme:dark)").expect("a dark ground");
        // A color that is not set by a class would not follow the ground.
        for node in document.descendants().filter(Node::is_element) {
            for color in ["fill", "stroke"].iter().filter_map(|paint| node.attribute(*paint)) {
                assert!(matches!(color, "none" | "url(#hatch)"), "{name}: {color}");
            }
            let classes = node.attribute("class").unwrap_or("").split_whitespace().map(|class| format!(".{class}{{"));
            for class in classes {
                assert!(light.contains(&class) && dark.contains(&class), "{name}: {class}");
            }
        }
    }
}

#[test]
fn any_text_stands_in_a_picture_as_it_was() {
    for (name, svg) in samples::all() {
        assert!(!svg.contains("<much>") && !svg.contains("<loop>"), "{name}");
    }
    let (_, gantt) = &samples::all()[0];
    let document = Document::parse(gantt).unwrap();
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(
        texts.contains(&"rate <loop>") && texts.iter().any(|text| text.starts_with("rate <loop> job 1: 10 ms to "))
    );
}

/// Whether an element is drawn only where another one refers to it.
fn is_definition(node: Node<'_, '_>) -> bool {
    node.ancestors().any(|above| above.has_tag_name("defs"))
}

fn extent(node: Node<'_, '_>) -> Extent {
    let of = |name: &str| node.attribute(name).map_or(0.0, |text| text.parse().expect("a number"));
    match node.tag_name().name() {
        "rect" => (of("x"), of("y"), of("x") + of("width"), of("y") + of("height")),
        "line" => around(&[(of("x1"), of("y1")), (of("x2"), of("y2"))]),
        "circle" => (of("cx") - of("r"), of("cy") - of("r"), of("cx") + of("r"), of("cy") + of("r")),
        "path" => around(&points(node.attribute("d").expect("it has one"))),
        "text" => text_extent(node, of("x"), of("y"), of("font-size")),
        other => panic!("{other} is not drawn by any picture"),
    }
}

fn around(points: &[(f64, f64)]) -> Extent {
    points.iter().fold((f64::MAX, f64::MAX, f64::MIN, f64::MIN), |(left, top, right, bottom), &(x, y)| {
        (left.min(x), top.min(y), right.max(x), bottom.max(y))
    })
}

fn text_extent(node: Node<'_, '_>, x: f64, y: f64, size: f64) -> Extent {
    let letter = if node.attribute("font-weight").is_some() { LETTERS.1 } else { LETTERS.0 };
    let wide = node.text().unwrap_or("").chars().count() as f64 * letter * size;
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - wide / 2.0,
        Some("end") => x - wide,
        _ => x,
    };
    (left, y - size, left + wide, y + size / 4.0)
}

/// The points that a path goes through: straight steps, absolute and relative.
fn points(d: &str) -> Vec<(f64, f64)> {
    let (mut points, mut at) = (Vec::new(), (0.0, 0.0));
    let starts: Vec<usize> =
        d.char_indices().filter(|(_, letter)| letter.is_ascii_alphabetic()).map(|(index, _)| index).collect();
    for (index, &start) in starts.iter().enumerate() {
        let arguments = numbers(&d[start + 1..starts.get(index + 1).copied().unwrap_or(d.len())]);
        at = match (d.as_bytes()[start], &arguments[..]) {
            (b'M' | b'L', &[x, y]) => (x, y),
            (b'l', steps) if steps.len() == 2 => (at.0 + steps[0], at.1 + steps[1]),
            (b'H', &[x]) => (x, at.1),
            (b'h', &[x]) => (at.0 + x, at.1),
            (b'V', &[y]) => (at.0, y),
            (b'Z', &[]) => at,
            (other, found) => panic!("{}{found:?} in {d}", other as char),
        };
        points.push(at);
    }
    points
}

fn numbers(text: &str) -> Vec<f64> {
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().unwrap_or_else(|_| panic!("{word} in {text}"))).collect()
}
