package config

import (
	"strings"
	"testing"
)

// TestAdminStaysOnThisHost: the admin server listens beyond this host with TLS alone, or if admin.plainRemote says so.
func TestAdminStaysOnThisHost(t *testing.T) {
	t.Parallel()
	for settings, refused := range map[string]string{
		"admin.enableServer=true":                                                        "",
		"admin.enableServer=true admin.serverAddress=localhost":                          "",
		"admin.enableServer=true admin.serverAddress=127.3.2.1":                          "",
		"admin.enableServer=true admin.serverAddress=[::1]":                              "",
		"admin.serverAddress=0.0.0.0":                                                    "",
		"admin.enableServer=true admin.serverAddress=0.0.0.0":                            "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=::":                                 "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=10.1.2.3":                           "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=host":                               "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.portUnification=true": "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.forceHttps=true":      "",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.plainRemote=true":     "",
		"admin.enableServer=true admin.serverAddress=a_b/c":                              "admin.serverAddress",
		"admin.commandURL=commands":                                                      "admin.commandURL",
	} {
		_, err := Default(strings.Fields("zookeeper." + strings.Join(strings.Fields(settings), " zookeeper.")))
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", settings, err, refused)
		}
	}
}
