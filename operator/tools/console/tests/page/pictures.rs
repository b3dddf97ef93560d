//! Renders pages in Chromium: pictures for the documentation, and no page wider than its window.

use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_console::list::Filter;

use crate::page::fixture::fixture;
use crate::page::says::{listed, rendered};

/// The height of a picture: below are only tables, and pictures in a repository should be small.
const PICTURE_HEIGHT_MAX: u32 = 1_700;
/// The browser, unless `CHROMIUM` names another.
const CHROMIUM: &str = "/usr/bin/chromium";

fn chromium(arguments: &[String]) -> String {
    let program = std::env::var("CHROMIUM").unwrap_or_else(|_unset| CHROMIUM.to_owned());
    let profile = std::env::temp_dir().join(format!("millrace-chromium-{}", std::process::id()));
    let run = Command::new(&program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--allow-file-access-from-files", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; CHROMIUM names another"));
    let _ = std::fs::remove_dir_all(profile);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

fn folder() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console");
    std::fs::create_dir_all(&target).unwrap();
    target
}

/// Writes a document that shows a page in a frame of this width: a window can't be made as narrow.
fn framed(folder: &Path, page: &str, width: u32, height: u32) -> PathBuf {
    let path = folder.join(format!("framed-{width}-{page}"));
    let text = format!(
        "<!doctype html><body style=\"margin:0\"><iframe id=f src=\"{page}\" style=\"border:0;width:\
         {width}px;height:{height}px\"></iframe><p id=out></p><script>f.onload=()=>{{const d=\
         f.contentDocument;out.textContent='width='+d.documentElement.scrollWidth+' height='+\
         d.documentElement.scrollHeight+' tabs='+d.querySelectorAll('a[href],input,select,button,\
         [tabindex=\"0\"]').length}}</script>"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn number(text: &str, word: &str) -> u32 {
    let rest = text.split(&format!("{word}=")).nth(1).unwrap_or_else(|| panic!("{word}: {text}"));
    rest.split(|it: char| !it.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Scenario: the pages in Chromium, in windows of 1280 and 400 pixels, in light and dark.
/// Guarantee: none is wider than its window, wide parts scroll separately and accept the keyboard;
/// pictures are in `docs/console` (with PICTURES=write) or in the target's folder.
#[test]
#[ignore = "needs Chromium: cargo test -p millrace-console page:: -- --ignored"]
fn pages_fit_their_windows() {
    let folder = folder();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/console");
    let writes = std::env::var_os("PICTURES").is_some_and(|word| word == "write");
    let pictures = if writes { docs } else { folder.clone() };
    std::fs::create_dir_all(&pictures).unwrap();
    let list = listed(&str::to_owned, &Filter { still: true, ..Filter::default() });
    std::fs::write(folder.join("list.html"), list).unwrap();
    let pipeline = rendered(&fixture(&str::to_owned), false);
    std::fs::write(folder.join("pipeline.html"), pipeline).unwrap();
    let variants =
        [(1280, 1, "light"), (1280, 0, "dark"), (400, 1, "narrow"), (400, 0, "narrow-dark")];
    for (page, (width, scheme, word)) in
        ["list", "pipeline"].into_iter().flat_map(|page| variants.map(|variant| (page, variant)))
    {
        let html = format!("{page}.html");
        let measured = framed(&folder, &html, width, 900);
        let dumped = chromium(&["--dump-dom".to_owned(), format!("file://{}", measured.display())]);
        assert!(number(&dumped, "width") <= width, "{page} at {width}: {dumped}");
        assert!(number(&dumped, "tabs") > 3, "{page}: {dumped}");
        let height = number(&dumped, "height").min(PICTURE_HEIGHT_MAX);
        let whole = framed(&folder, &html, width, height);
        chromium(&[
            format!("--screenshot={}", pictures.join(format!("{page}-{word}.png")).display()),
            format!("--window-size={width},{height}"),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            format!("file://{}", whole.display()),
        ]);
    }
}
