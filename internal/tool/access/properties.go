package access

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
)

// ReadProperties applies the settings in a file, as zkCli's flag -client-configuration does.
func (a *Access) ReadProperties(file string) error {
	text, err := ReadSmall(file)
	if err != nil {
		return err
	}
	values, err := config.Properties(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := a.SetProperty(name, values[name]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// SetProperty applies one setting of Java's client. It ignores settings that have no meaning here and do no harm. An
// unknown name is an error, since it may be a misspelt setting that was meant to secure the connection.
func (a *Access) SetProperty(name, value string) (err error) {
	store := func(s *keystore.Store, part string) error {
		switch part {
		case "location":
			s.Location = value
		case "password":
			s.Password = value
		case "passwordPath":
			s.PasswordPath = value
		case "type":
			s.Type = value
		default:
			return unknownProperty(name)
		}
		return nil
	}
	list := func() []string {
		return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	}
	switch name {
	case "zookeeper.client.secure":
		a.Secure, err = parseSwitch(name, value)
		a.plain = !a.Secure
	case "zookeeper.ssl.hostnameVerification":
		a.AnyHost, err = parseSwitch(name, value)
		a.AnyHost = !a.AnyHost
	case "zookeeper.ssl.protocol":
		a.protocol = value
	case "zookeeper.ssl.enabledProtocols":
		a.protocols = list()
	case "zookeeper.ssl.ciphersuites":
		a.suites = list()
	case "zookeeper.ssl.crl", "zookeeper.ssl.ocsp":
		on, err := parseSwitch(name, value)
		a.revocation = a.revocation || on
		return err
	case "jute.maxbuffer":
		a.RequestMax, err = parseBytes(name, value)
	case "java.security.auth.login.config":
		a.login.file = value
	case "zookeeper.sasl.client":
		a.login.off, err = parseSwitch(name, value)
		a.login.off = !a.login.off
	case "zookeeper.sasl.client.username":
		if !strings.Contains(a.login.service, "/") {
			a.login.service = value
		}
	case "zookeeper.server.principal":
		a.login.service = value
	case "zookeeper.sasl.mechanism":
		err = a.SetMechanism(value)
	case "zookeeper.sasl.clientconfig":
		a.login.section = value
	default:
		if part, ok := strings.CutPrefix(name, "zookeeper.ssl.keyStore."); ok {
			return store(&a.Keys, part)
		}
		if part, ok := strings.CutPrefix(name, "zookeeper.ssl.trustStore."); ok {
			return store(&a.Trust, part)
		}
		if !slices.Contains(idleProperties(), name) {
			return unknownProperty(name)
		}
	}
	return err
}

// idleProperties returns the properties without effect here: they choose Java classes, or set something that isn't
// configurable here.
func idleProperties() []string {
	return []string{
		"zookeeper.clientCnxnSocket",
		"zookeeper.disableAutoWatchReset", "zookeeper.request.timeout", "zookeeper.shuffleDnsResponse",
		"zookeeper.hostProvider.dnsSrvRefreshIntervalSeconds", "zookeeper.kinit", "zookeeper.fips-mode",
		"zookeeper.jmx.log4j.disable",
		"zookeeper.server.realm", "zookeeper.sasl.client.canonicalize.hostname",
		"zookeeper.sasl.client.allowReverseDnsLookup", "zookeeper.ssl.context.supplier.class", "zookeeper.ssl.clientAuth",
		"zookeeper.ssl.handshakeDetectionTimeoutMillis", "zookeeper.client.certReload", "zookeeper.ssl.allowReverseDnsLookup",
	}
}

func unknownProperty(name string) error {
	return fmt.Errorf("there is no setting %q; the settings are those of Java's client, such as zookeeper.client.secure, zookeeper.ssl.keyStore.location, java.security.auth.login.config",
		name)
}

// parseSwitch parses true or false. Java regards everything except true as false, so a typo would turn TLS off.
func parseSwitch(name, value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%s=%s: want true or false", name, value)
}

// parseBytes reads a size as Java does: decimal, 0x… or 0….
func parseBytes(name, value string) (int, error) {
	n, err := strconv.ParseInt(value, 0, 32)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%s=%s: want a number of bytes, such as 4194304 or 0x400000", name, value)
	}
	return int(n), nil
}
