//! Setup of devices and ports.

pub(crate) use command::configure::{add_file, device_config, load, load_text, load_with_handlers};
pub(crate) use runtime::check_port;
