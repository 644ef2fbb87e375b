//! The embedding example, run as a test.

#[path = "../examples/embed.rs"]
#[allow(dead_code)]
mod embed;

#[test]
fn the_embedded_router_forwards_the_capture() {
    // One of the 27 packets is an ARP request, which the router answers by the same port.
    assert_eq!(embed::forward_capture().unwrap(), [27, 26]);
}
