//! What people look at: the console, dashboards, the plugin.

mod console;
mod dashboards;
mod plugin;
