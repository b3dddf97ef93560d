//! Chromium as a person uses it: pages opened, links followed with mouse and keyboard, what has the
//! focus, pictures. It is driven by its DevTools protocol over a pipe (JSON ended by a zero byte), so
//! nothing but Chromium is needed, and no port is open.
//!
//! Must not: judge pages. One page at a time, without a profile that outlives it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_stack::chromium;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Process;
use crate::wait;

/// For a start, a page or a picture on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Messages that wait to be read. A page that is loaded tells of some tens.
const MESSAGES_MAX: usize = 4_096;

/// A running Chromium with one page.
#[derive(Debug)]
pub struct Browser {
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    // Dropped before the folder that its profile is in.
    _process: Process,
    _folder: TempDir,
}

impl Browser {
    /// Starts it without a window.
    ///
    /// # Errors
    /// When there is no Chromium (the message says how to get it), or it does not start.
    pub fn start() -> Result<Self> {
        let program = chromium::find();
        let program = program.with_context(|| format!("no Chromium: {}", chromium::HINT))?;
        let folder = tempfile::tempdir()?;
        let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status()?;
        ensure!(made.success(), "mkfifo failed");
        // Opened for both, a pipe waits for nobody at its other end.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let (to_file, from_file) = (open(&to)?, open(&from)?);
        let mut command = Command::new("sh");
        command
            .args(["-euc", "exec \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .envs([("TO", &to), ("FROM", &from)]);
        let process = Process::start("chromium", &mut command, &folder.path().join("log"))?;
        let (sender, receiver) = sync_channel(MESSAGES_MAX);
        thread::spawn(move || {
            for message in BufReader::new(from_file).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            to: to_file,
            from: receiver,
            session: None,
            asked: 0,
            _process: process,
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}))?;
        Ok(browser)
    }

    /// One command and its answer; what the browser tells meanwhile is passed over.
    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        let began = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(began.elapsed());
            let told = self.from.recv_timeout(left);
            let told = told.with_context(|| format!("Chromium did not answer {method}"))?;
            if told["id"] == id {
                ensure!(told.get("error").is_none(), "{method}: {}", told["error"]);
                return Ok(told["result"].clone());
            }
        }
    }

    /// What an expression in the page's language is.
    ///
    /// # Errors
    /// When it throws.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true});
        let told = self.call("Runtime.evaluate", params)?;
        if let Some(thrown) = told.get("exceptionDetails") {
            bail!("{expression}: {thrown}");
        }
        Ok(told["result"]["value"].clone())
    }

    /// The same as text; empty if it is none.
    ///
    /// # Errors
    /// When it throws.
    pub fn text(&mut self, expression: &str) -> Result<String> {
        Ok(self.value(expression)?.as_str().unwrap_or_default().to_owned())
    }

    /// Opens an address and waits until its page is there.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(&mut self, address: &str) -> Result<()> {
        let told = self.call("Page.navigate", json!({"url": address}))?;
        ensure!(told.get("errorText").is_none(), "{address}: {}", told["errorText"]);
        self.arrived(address)
    }

    /// Waits for a page whose address or title has this part.
    ///
    /// # Errors
    /// When it does not come; the message has the one that is there.
    pub fn arrived(&mut self, part: &str) -> Result<()> {
        wait::until(&format!("a page {part}"), LIMIT, || {
            // While one page goes and the next comes there may be nothing to ask.
            let there =
                self.text("[document.readyState, location.href, document.title].join(' ')")?;
            ensure!(there.starts_with("complete ") && there.contains(part), "{there}");
            Ok(())
        })
    }

    /// A window of this size, in the dark or in the light.
    ///
    /// # Errors
    /// When the browser refuses.
    pub fn window(&mut self, width: u32, height: u32, is_dark: bool) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// Presses and releases a key: `Tab` or `Enter`.
    ///
    /// # Errors
    /// When the browser refuses.
    pub fn key(&mut self, name: &str) -> Result<()> {
        let (code, text) = match name {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            other => bail!("no key {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut key = json!({"type": kind, "key": name, "code": name,
                "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                key["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", key)?;
        }
        Ok(())
    }

    /// Writes where the focus is.
    ///
    /// # Errors
    /// When the browser refuses.
    pub fn write(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({"text": text})).map(drop)
    }

    /// Presses Tab until an expression of `it`, which has the focus, is true; gives how often.
    ///
    /// # Errors
    /// When it is not within `most`.
    pub fn tab_to(&mut self, condition: &str, most: usize) -> Result<usize> {
        for presses in 1..=most {
            self.key("Tab")?;
            let asked = format!("(it => Boolean({condition}))(document.activeElement)");
            if self.value(&asked)? == true {
                return Ok(presses);
            }
        }
        bail!("Tab does not lead to {condition}")
    }

    /// Clicks in the middle of the first element of a selector.
    ///
    /// # Errors
    /// When there is none.
    pub fn click(&mut self, selector: &str) -> Result<()> {
        let place = self.value(&format!(
            "(it => {{ it.scrollIntoView(); const r = it.getClientRects()[0]; \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})(document.querySelector({}))",
            json!(selector)
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
                "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// A picture of the page from its top, so high at most, as PNG.
    ///
    /// # Errors
    /// When it can't be taken or written.
    pub fn picture(&mut self, path: &Path, height_max: u32) -> Result<()> {
        let size = self.value(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]",
        )?;
        let height = size[1].as_u64().unwrap_or_default().min(height_max.into());
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": height, "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let told = self.call("Page.captureScreenshot", params)?;
        let data = STANDARD.decode(told["data"].as_str().context("no picture")?)?;
        fs::write(path, data).with_context(|| format!("cannot write {}", path.display()))
    }
}
