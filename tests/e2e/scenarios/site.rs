//! The site of all pages (`make site`) in a browser. Needs no cluster.

use anyhow::{Context, Result, ensure};

use crate::harness::browser::look;
use crate::harness::repository::repository;
use crate::harness::tools::run_script;

/// A page that opens the site, looks at its first page, searches for `glossary`, and opens the
/// first result. It records, in this order: the title and the width of the first picture; the
/// entries of the navigation that are visible; the title of the result and the marked words in it;
/// what was loaded from elsewhere.
const FRAME: &str = r##"<iframe id="page" src="file://SITE/index.html" style="width:1280px;height:800px;border:0"></iframe><script>
const loaded = () => new Promise(resolve => page.addEventListener("load", resolve, { once: true }));
const all = selector => [...page.contentDocument.querySelectorAll(selector)];
const elsewhere = () => page.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name).filter(name => !name.startsWith("file:"));
const found = async selector => {
  while (!all(selector).length) await new Promise(resolve => setTimeout(resolve, 10));
  return all(selector)[0];
};
const visit = async () => {
  await loaded();
  const seen = [page.contentDocument.title, all("main img")[0].naturalWidth];
  const visible = all("#mdbook-sidebar a").filter(link => !link.hash && link.getClientRects().length);
  seen.push(new Set(visible.map(link => link.href)).size);
  all("#mdbook-search-toggle")[0].click();
  const bar = all("#mdbook-searchbar")[0];
  bar.value = "glossary";
  bar.dispatchEvent(new KeyboardEvent("keyup"));
  const result = await found("#mdbook-searchresults a");
  const external = elsewhere(), next = loaded();
  result.click();
  await next;
  seen.push(page.contentDocument.title, all("main mark").length, [...external, ...elsewhere()].join(" "));
  document.body.dataset.seen = seen.join("|");
};
visit();
</script>"##;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn site_shows_pages_pictures_and_search_results() -> Result<()> {
    run_script("scripts/site.sh", &["--unchecked"])?;
    let site = repository("target/site");
    let summary = std::fs::read_to_string(repository("target/site-source/SUMMARY.md"))?;
    let directory = tempfile::tempdir()?;
    let frame = FRAME.replace("SITE", &site.display().to_string());
    let seen = look(directory.path(), &frame, false).await?;
    let [title, width, entries, result, marks, elsewhere] =
        <[&str; 6]>::try_from(seen.split('|').collect::<Vec<_>>())
            .ok()
            .with_context(|| format!("six values: {seen}"))?;
    ensure!(title == "Introduction - gpu-rollout", "{seen}");
    ensure!(width.parse::<u32>()? > 0, "the picture is not shown: {seen}");
    ensure!(entries.parse::<usize>()? == summary.matches("](").count(), "entries: {seen}");
    ensure!(result == "Glossary - gpu-rollout", "{seen}");
    ensure!(marks.parse::<usize>()? > 0, "the word is not marked: {seen}");
    ensure!(elsewhere.is_empty(), "loaded from elsewhere: {seen}");
    Ok(())
}
