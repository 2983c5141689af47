//! The preview of a pull request, on a real Git repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::{add_program, errors, path_with, script, succeed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gpu-rollout");

/// A Git repository with bundles.
struct Fleet(TempDir);

impl Fleet {
    /// Creates a repository whose first commit has three bundles. On its branch, one bundle is
    /// changed, one is removed and one is added; then the branch is merged.
    fn merged() -> Self {
        let fleet = Self(tempfile::tempdir().unwrap());
        fleet.git(&["init", "--quiet", "--initial-branch", "main"]);
        for name in ["clusters/a", "clusters/with space", "gone"] {
            fleet.render("base", name, &[]);
        }
        fleet.commit("Add bundles");
        fleet.git(&["checkout", "--quiet", "-b", "topic"]);
        fleet.render(
            "base",
            "clusters/a",
            &["--set", "rollout.gpuDriver.policy.maxUnavailable=10%", "--force"],
        );
        fs::remove_dir_all(fleet.path().join("gone")).unwrap();
        fleet.render("kind-dev", "new", &[]);
        fleet.commit("Change bundles");
        fleet.git(&["checkout", "--quiet", "main"]);
        fleet.git(&["merge", "--quiet", "--no-ff", "--message", "Merge", "topic"]);
        fleet
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, arguments: &[&str]) {
        succeed(
            Command::new("git")
                .args(["-c", "user.name=test", "-c", "user.email=test@example.com"])
                .args(arguments)
                .current_dir(self.path())
                .env("GIT_CONFIG_GLOBAL", "/dev/null"),
        );
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    fn render(&self, recipe: &str, directory: &str, options: &[&str]) {
        succeed(
            Command::new(PROGRAM)
                .args(["bundle", "render", "--deployer", "helm", "--recipe", recipe])
                .args(["--output", directory])
                .args(options)
                .current_dir(self.path()),
        );
    }

    fn preview(&self, arguments: &[&str]) -> String {
        succeed(
            script("scripts/preview.sh")
                .args(arguments)
                .current_dir(self.path())
                .env("GPU_ROLLOUT", PROGRAM)
                .env_remove("KUBECONFIG"),
        )
    }
}

/// Returns the titles of the sections of a page.
fn titles(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

#[test]
#[ignore = "needs git: make e2e"]
fn preview_shows_what_a_branch_changes() {
    let fleet = Fleet::merged();
    let page = fleet.preview(&[]);
    assert_eq!(titles(&page), ["`clusters/a`", "`gone`", "`new`"], "{page}");
    assert!(page.contains("driver.upgradePolicy.maxUnavailable: \"25%\" → \"10%\""), "{page}");
    assert!(page.contains("Unchanged bundles: 1."), "{page}");
    // A bundle that has not changed has no section, and neither has one elsewhere.
    let page = fleet.preview(&["HEAD^1", "new"]);
    assert_eq!(titles(&page), ["`new`"], "{page}");
    assert!(fleet.preview(&["HEAD"]).contains("No bundle changes"));
}

/// A `gh` that keeps the comment of its last call, and answers with the comments of a file.
struct Github(TempDir);

impl Github {
    fn new() -> Self {
        let github = Self(tempfile::tempdir().unwrap());
        add_program(
            &github.path("bin/gh"),
            "here=${0%/*}/..\n\
             case $* in\n\
             *--paginate*) cat \"$here/comments\" ;;\n\
             *) echo \"$3 $4\" >>\"$here/calls\" && cp \"$6\" \"$here/comment\" ;;\n\
             esac",
        );
        github
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Comments on pull request 7 while it has these comments. Returns the call.
    fn comment(&self, comments: &str) -> String {
        fs::write(self.path("comments"), comments).unwrap();
        fs::write(self.path("calls"), "").unwrap();
        let program = script("scripts/preview/github.sh").get_program().to_owned();
        succeed(
            Command::new("sh")
                .args(["-c", "echo page | \"$0\" 7"])
                .arg(program)
                .env("PATH", path_with(&self.path("bin")))
                .env("GITHUB_REPOSITORY", "team/fleet")
                .env("GITHUB_STEP_SUMMARY", self.path("summary")),
        );
        fs::read_to_string(self.path("calls")).unwrap()
    }
}

#[test]
#[ignore = "needs jq: make e2e"]
fn second_preview_updates_the_comment_of_the_first() {
    let github = Github::new();
    let mark = "<!-- gpu-rollout preview -->";
    assert_eq!(github.comment("[]"), "POST repos/team/fleet/issues/7/comments\n");
    let comment = fs::read_to_string(github.path("comment")).unwrap();
    let comment: serde_json::Value = serde_json::from_str(&comment).unwrap();
    assert_eq!(comment["body"], format!("{mark}\npage\n"));
    let old = format!("{mark}\nold\n");
    let of = |id: u64, user: &str| json!({"id": id, "user": {"login": user}, "body": old});
    // Another user's comment is not touched.
    let comments = json!([of(1, "other-user"), of(2, "github-actions[bot]")]);
    let call = github.comment(&comments.to_string());
    assert_eq!(call, "PATCH repos/team/fleet/issues/comments/2\n");
    let summary = fs::read_to_string(github.path("summary")).unwrap();
    assert_eq!(summary.matches("page").count(), 2);
}

/// The event of a push has no pull request, so its number is empty.
#[test]
fn preview_without_a_pull_request_is_refused() {
    let output = script("scripts/preview/github.sh")
        .args(["", "preview"])
        .env("GITHUB_REPOSITORY", "team/fleet")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("hint: run the workflow `on: pull_request`"));
}

/// A `curl` that records its arguments and the headers of their files, and answers as GitLab. It
/// knows the notes of a file.
struct Gitlab(TempDir);

impl Gitlab {
    fn new() -> Self {
        let gitlab = Self(tempfile::tempdir().unwrap());
        add_program(
            &gitlab.path("bin/curl"),
            "here=${0%/*}/..\n\
             echo \"$*\" >>\"$here/calls\"\n\
             for argument; do\n\
             case $argument in\n\
             @*/token) cat \"${argument#@}\" >\"$here/header\" ;;\n\
             @*/note) cat \"${argument#@}\" >\"$here/note\" ;;\n\
             esac\n\
             done\n\
             case $* in\n\
             *'/user') echo '{\"id\": 3}' ;;\n\
             *'&page=1') cat \"$here/notes\" ;;\n\
             *'&page='*) echo '[]' ;;\n\
             esac",
        );
        gitlab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a note on merge request 7 while it has these notes. Returns the arguments of the
    /// calls, one call per line.
    fn comment(&self, notes: &str) -> String {
        fs::write(self.path("notes"), notes).unwrap();
        fs::write(self.path("calls"), "").unwrap();
        let program = script("scripts/preview/gitlab.sh").get_program().to_owned();
        succeed(
            Command::new("sh")
                .args(["-c", "echo page | \"$0\""])
                .arg(program)
                .env("PATH", path_with(&self.path("bin")))
                .env("GITLAB_TOKEN", "top-secret")
                .env("CI_API_V4_URL", "https://gitlab.example.com/api/v4")
                .env("CI_PROJECT_ID", "5")
                .env("CI_MERGE_REQUEST_IID", "7"),
        );
        fs::read_to_string(self.path("calls")).unwrap()
    }
}

#[test]
#[ignore = "needs jq: make e2e"]
fn gitlab_note_is_updated_and_its_token_is_no_argument() {
    const NOTES: &str = "https://gitlab.example.com/api/v4/projects/5/merge_requests/7/notes";
    let gitlab = Gitlab::new();
    let mark = "<!-- gpu-rollout preview -->";
    let calls = gitlab.comment("[]");
    let last = calls.lines().next_back().unwrap();
    assert!(last.contains("--request POST ") && last.ends_with(NOTES), "{calls}");
    assert!(!calls.contains("top-secret"), "{calls}");
    let header = fs::read_to_string(gitlab.path("header")).unwrap();
    assert_eq!(header, "PRIVATE-TOKEN: top-secret\n");
    let note = fs::read_to_string(gitlab.path("note")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    assert_eq!(note["body"], format!("{mark}\npage\n"));
    let old = format!("{mark}\nold\n");
    let of = |id: u64, user: u64| json!({"id": id, "author": {"id": user}, "body": old});
    // Another user's note is not touched.
    let calls = gitlab.comment(&json!([of(1, 4), of(2, 3)]).to_string());
    let last = calls.lines().next_back().unwrap();
    assert!(last.contains("--request PUT ") && last.ends_with(&format!("{NOTES}/2")), "{calls}");
    let calls = gitlab.comment(&json!([of(1, 4)]).to_string());
    assert!(calls.lines().next_back().unwrap().contains("--request POST "), "{calls}");
}
