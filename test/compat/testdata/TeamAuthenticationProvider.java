package com.example;

import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.auth.AuthenticationProvider;

/** The scheme team of team.go.txt: whoever knows the word is who he says, and ACL entries are patterns. */
public class TeamAuthenticationProvider implements AuthenticationProvider {
    public String getScheme() {
        return "team";
    }

    public KeeperException.Code handleAuthentication(ServerCnxn cnxn, byte[] auth) {
        String[] parts = new String(auth, StandardCharsets.UTF_8).split(":", 2);
        if (parts.length < 2 || parts[0].isEmpty() || !parts[1].equals("swordfish")) {
            return KeeperException.Code.AUTHFAILED;
        }
        cnxn.addAuthInfo(new Id(getScheme(), parts[0]));
        return KeeperException.Code.OK;
    }

    public boolean matches(String id, String aclExpr) {
        if (aclExpr.startsWith("!")) {
            return !id.equals(aclExpr.substring(1));
        }
        for (String part : aclExpr.split("\\|", -1)) {
            if (part.endsWith("*") ? id.startsWith(part.substring(0, part.length() - 1)) : id.equals(part)) {
                return true;
            }
        }
        return false;
    }

    public boolean isAuthenticated() {
        return true;
    }

    public boolean isValid(String id) {
        return !id.isEmpty() && !id.contains("!!");
    }
}
