using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

/// Signs a call of the wallet for Minitill and prints the form body to send (C# 6 or newer).
///
/// Try it: mcs Sign.cs && mono Sign.exe PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
public static class Sign
{
    static readonly string[] NotSigned = { "access_token", "sign" };

    /// Signs the values as they are, sorted by name, without empty ones; only the body is encoded.
    public static string SignedBody(IDictionary<string, string> fields, string payKey)
    {
        var signed = fields.Where(field => field.Value != "" && !NotSigned.Contains(field.Key))
            .OrderBy(field => field.Key, StringComparer.Ordinal).Select(field => field.Key + "=" + field.Value);
        string sign;
        using (var mac = new HMACSHA256(Encoding.UTF8.GetBytes(payKey)))
        {
            byte[] hash = mac.ComputeHash(Encoding.UTF8.GetBytes(string.Join("&", signed)));
            sign = string.Concat(hash.Select(part => part.ToString("x2")));
        }
        var body = new Dictionary<string, string>(fields) { ["sign"] = sign };
        return string.Join("&", body.Select(field => field.Key + "=" + Uri.EscapeDataString(field.Value)));
    }

    public static void Main(string[] arguments)
    {
        var pairs = arguments[1].Split('&').Select(pair => pair.Split(new[] { '=' }, 2));
        var fields = pairs.ToDictionary(pair => pair[0], pair => Uri.UnescapeDataString(pair[1].Replace('+', ' ')));
        Console.WriteLine(SignedBody(fields, arguments[0]));
    }
}
