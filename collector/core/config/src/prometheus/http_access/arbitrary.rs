//! Settings of requests over HTTP, whatever they are.

use super::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy};
use crate::document::round_trip::parsed;
use crate::values::secret::arbitrary::file;
use crate::values::url::{HttpUrl, NoProxy};
use proptest::option;
use proptest::prelude::{Strategy, any};

pub(crate) fn http_tls() -> impl Strategy<Value = HttpTls> {
    let name = option::of("[a-z.]{1,10}");
    (option::of(file()), option::of(file()), option::of(file()), name, any::<bool>()).prop_map(
        |(ca_file, cert_file, key_file, server_name, insecure_skip_verify)| HttpTls {
            ca_file,
            cert_file,
            key_file,
            server_name,
            insecure_skip_verify,
        },
    )
}

pub(crate) fn basic_auth() -> impl Strategy<Value = BasicAuth> {
    (option::of("[ -~é]{0,10}"), option::of(file()), option::of(file())).prop_map(
        |(username, username_file, password_file)| BasicAuth {
            username,
            username_file,
            password_file,
        },
    )
}

pub(crate) fn url() -> impl Strategy<Value = HttpUrl> {
    parsed::<HttpUrl>("https?://[a-z][a-z0-9.-]{0,10}(:[1-9][0-9]{0,3})?/[a-z?&=]{0,9}")
}

pub(crate) fn proxy() -> impl Strategy<Value = Proxy> {
    let hosts = parsed::<NoProxy>("([.]?[a-z]{1,9}(:[1-9])?|10[.]0[.]0[.]0/[1-9]|[*]|fd00::1)");
    let hosts = proptest::collection::vec(hosts, 0..3);
    (url(), option::of(basic_auth()), hosts).prop_map(|(url, basic_auth, no_proxy)| Proxy {
        url,
        basic_auth,
        no_proxy,
    })
}

pub(crate) fn access() -> impl Strategy<Value = HttpAccess> {
    let authorization = ("[A-Za-z]{1,9}", file())
        .prop_map(|(r#type, credentials_file)| Authorization { r#type, credentials_file });
    let texts = proptest::collection::vec("[ -~é]{0,6}", 0..3);
    let params = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
    let client = (option::of("[ -~]{0,6}"), option::of(file()), file());
    let oauth2 = (client, url(), texts, params, (option::of(http_tls()), option::of(proxy())));
    let oauth2 =
        oauth2.prop_map(|(client, token_url, scopes, endpoint_params, (tls, proxy))| OAuth2 {
            client_id: client.0,
            client_id_file: client.1,
            client_secret_file: client.2,
            token_url,
            scopes,
            endpoint_params,
            tls,
            proxy,
        });
    let logins = (option::of(authorization), option::of(basic_auth()), option::of(oauth2));
    (option::of(http_tls()), logins.boxed(), option::of(proxy()), any::<bool>()).prop_map(
        |(tls, (authorization, basic_auth, oauth2), proxy, follow_redirects)| HttpAccess {
            tls,
            authorization,
            basic_auth,
            oauth2,
            proxy,
            follow_redirects,
        },
    )
}
