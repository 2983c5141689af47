//! A headless Chromium, which looks at pages of files.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::tools::run_script;

/// Opens a page, and returns what its script writes to `document.body.dataset.seen`. The page can
/// load other files in frames, and see what is in them. The browser asks for the light or the dark
/// color scheme. Its files are in `directory`.
pub(crate) async fn look(directory: &Path, html: &str, is_dark: bool) -> Result<String> {
    let page = directory.join("frame.html");
    std::fs::write(&page, html)?;
    let browser = run_script("tests/tools/chromium.sh", &[])?;
    let profile = directory.join(if is_dark { "dark" } else { "light" });
    let output = Command::new(browser.trim())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"])
        .arg("--virtual-time-budget=5000")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let dom = String::from_utf8_lossy(&output.stdout);
    let seen = dom.split("data-seen=\"").nth(1).and_then(|rest| rest.split('"').next());
    seen.map(str::to_owned).with_context(|| {
        format!("the page saw nothing: {dom}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}
