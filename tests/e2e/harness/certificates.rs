//! Certificates of one run's control plane: a CA, the API server's certificate, client
//! certificates, the key of ServiceAccount tokens.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names under which pods and tests reach the API server; `10.96.0.1` is the first address of the
/// service range.
const SERVER_NAMES: [&str; 5] =
    ["127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc", "kubernetes.default"];

/// A certificate authority that writes its certificates into a directory.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates the CA. Its certificate is `ca.crt`.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        parameters.distinguished_name.push(DnType::CommonName, "gpu-rollout end-to-end tests");
        let key = KeyPair::generate()?;
        fs::write(directory.join("ca.crt"), parameters.self_signed(&key)?.pem())?;
        let tokens = KeyPair::generate()?;
        fs::write(directory.join("service-accounts.key"), tokens.serialize_pem())?;
        fs::write(directory.join("service-accounts.pub"), tokens.public_key_pem())?;
        Ok(Self { directory: directory.to_owned(), issuer: Issuer::new(parameters, key) })
    }

    /// Creates `server.crt` and `server.key`.
    pub(crate) fn server(&self) -> Result<()> {
        let names = SERVER_NAMES.iter().map(|name| (*name).to_owned());
        self.sign(
            "server",
            CertificateParams::new(names.collect::<Vec<_>>())?,
            "kube-apiserver",
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// Creates a client certificate and a kubeconfig `<name>.kubeconfig` that uses it. Returns the
    /// path of the kubeconfig.
    pub(crate) fn client(
        &self,
        name: &str,
        user: &str,
        group: Option<&str>,
        server: &str,
    ) -> Result<PathBuf> {
        let mut parameters = CertificateParams::new(Vec::new())?;
        if let Some(group) = group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(name, parameters, user, ExtendedKeyUsagePurpose::ClientAuth)?;
        let file = |name: String| self.directory.join(name).display().to_string();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": file("ca.crt".into())}}],
            "users": [{"name": name, "user": {
                "client-certificate": file(format!("{name}.crt")), "client-key": file(format!("{name}.key")),
            }}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
        });
        let path = self.directory.join(format!("{name}.kubeconfig"));
        fs::write(&path, serde_json::to_vec_pretty(&kubeconfig)?)?;
        Ok(path)
    }

    fn sign(
        &self,
        name: &str,
        mut parameters: CertificateParams,
        user: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<()> {
        parameters.distinguished_name.push(DnType::CommonName, user);
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        fs::write(
            self.directory.join(format!("{name}.crt")),
            parameters.signed_by(&key, &self.issuer)?.pem(),
        )?;
        fs::write(self.directory.join(format!("{name}.key")), key.serialize_pem())?;
        Ok(())
    }
}
