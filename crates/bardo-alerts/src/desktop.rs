//! Notifications of this machine's desktop.

use futures::future::BoxFuture;

use super::alert::AlertMessage;
use super::channel::{Channel, ChannelError, ChannelName, Delivered, SendError};
use super::secret::HiddenTexts;
use bardo_base::text::SafeText;

const NAME: ChannelName = ChannelName::Desktop;

#[derive(Debug)]
pub(crate) struct Desktop;

impl Desktop {
    /// Opens the channel.
    #[cfg(feature = "desktop")]
    #[expect(clippy::unnecessary_wraps, reason = "a build without the feature cannot open it")]
    pub(crate) fn open() -> Result<Self, ChannelError> {
        Ok(Self)
    }

    /// Opens the channel.
    #[cfg(not(feature = "desktop"))]
    pub(crate) fn open() -> Result<Self, ChannelError> {
        let why = "this Bardo was built without it: build it with --features desktop-alerts, or set desktop = false";
        Err(ChannelError::value("desktop", why))
    }
}

#[cfg(feature = "desktop")]
async fn show(message: &AlertMessage<'_>) -> Result<Delivered, SendError> {
    /// Timeout for the desktop, which may not run.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
    let mut notification = notify_rust::Notification::new();
    // Many desktops read markup in the body.
    let body = message.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    notification.appname("Bardo").summary(&message.title()).body(&body);
    #[cfg(target_os = "linux")]
    let shown = async { notification.show_async().await.map(drop).map_err(|error| error.to_string()) };
    #[cfg(not(target_os = "linux"))]
    let shown = async {
        let shown = tokio::task::spawn_blocking(move || notification.show().map(drop)).await;
        shown.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    match tokio::time::timeout(PATIENCE, shown).await {
        Ok(Ok(())) => Ok(Delivered(SafeText::clean("shown", 40))),
        Ok(Err(why)) => Err(SendError::again(&format!("the desktop shows no notifications: {why}"))),
        Err(_) => Err(SendError::again("the desktop does not answer")),
    }
}

#[cfg(not(feature = "desktop"))]
async fn show(_: &AlertMessage<'_>) -> Result<Delivered, SendError> {
    Err(SendError::never("this Bardo was built without desktop notifications"))
}

impl Channel for Desktop {
    fn name(&self) -> ChannelName {
        NAME
    }

    fn destination(&self) -> SafeText {
        SafeText::clean("this machine's desktop", 40)
    }

    fn send<'a>(&'a self, message: &'a AlertMessage<'a>) -> BoxFuture<'a, Result<Delivered, SendError>> {
        // It has no secret; what the desktop answers can still be long.
        Box::pin(async { HiddenTexts::default().without(show(message).await) })
    }
}
